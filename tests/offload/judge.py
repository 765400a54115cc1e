#!/usr/bin/env python3
"""judge.py BUILD [CHECK...]: what Debian's unmodified Open vSwitch makes of the card and its driver. Each check has Open
vSwitch, card and namespaces of its own, which are the calling user's."""

import os
import sys
import tempfile

import action_checks
import end_checks
import flow_checks
import load_checks
import node_checks
import port_checks
from setup import DPDK, SetUp, run, skip_without

# With Open vSwitch's settings.
CHECKS = {check.__name__: (check, settings) for check, *settings in (
    [flow_checks.ports_are_offloaded],
    [flow_checks.software_sees_almost_nothing],
    [flow_checks.flows_outlive_a_stop],
    [flow_checks.counters_are_exact],
    [flow_checks.counters_are_exact_under_dumps],
    [flow_checks.live_flows_stay, "max-idle=2000"],
    [flow_checks.packets_do_not_wait_for_a_slow_card],
    [flow_checks.software_finds_flows_by_marks],
    [flow_checks.flows_change],
    [flow_checks.four_threads_offload, "n-offload-threads=4"],
    [action_checks.card_does_as_software],
    [action_checks.tunnels_begin_in_the_card],
    [port_checks.functions_have_the_names_of_mlx5],
    [port_checks.mac_and_link_are_the_switchs],
    [port_checks.ports_get_other_queues_and_mtus, f"dpdk-extra={DPDK.format(512)}", "per-port-memory=true"],
    [port_checks.ports_are_plugged_again],
    [load_checks.full_card_leaves_the_rest_to_software, "max-idle=3000"],
    [load_checks.new_flows_fill_the_card, "n-offload-threads=4", "max-idle=3000"],
    [node_checks.nodes_on_rings_are_offloaded],
    [node_checks.rules_decide_on_nodes],
    [node_checks.nodes_go_on_without_vswitch],
    [end_checks.next_card_gets_all_rules],
    [end_checks.next_vswitchd_connects],
    [end_checks.paused_revalidators_hinder_no_end],
)}

# The rules of those that have no room for more.
SMALL_CARDS = {load_checks.full_card_leaves_the_rest_to_software: load_checks.FULL,
               load_checks.new_flows_fill_the_card: load_checks.ROOM}


def main():
    build = os.path.abspath(sys.argv[1])
    skip_without(build)
    failed = 0
    for name in sys.argv[2:] or CHECKS:
        check, settings = CHECKS[name]
        words = node_checks.RINGS if check.__module__ == node_checks.__name__ else ()
        with tempfile.TemporaryDirectory() as folder:
            os.environ["XDG_RUNTIME_DIR"] = os.environ["XDG_CONFIG_HOME"] = folder
            if check in SMALL_CARDS:
                load_checks.small_card(SMALL_CARDS[check])
            failed += run(SetUp(build, words=words), [check], settings)
    return failed


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
