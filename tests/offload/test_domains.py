#!/usr/bin/env python3
"""`verbatim nic ovs up` on a host and on a DPU: the same checks pass in both. Where root runs this, the DPU's host belongs
to another user. Takes the build's folder."""

import os
import sys
import tempfile

from flow_checks import (counters_are_exact, flows_outlive_a_stop, idle_flows_end, ports_are_offloaded,
                         rdma_nodes_use_functions, show_tells_what_runs, software_sees_almost_nothing)
from port_checks import mac_and_link_are_the_switchs
from setup import SetUp, expect, run, skip_without


def host_has_functions_only(setup):
    def host(*words):
        return setup.command("host", "--", *words, check=False)

    expect("1 received" in host("ping", "-c", "1", "-W", "5", "10.9.0.100").stdout, "pf0hpf does not forward")
    links = host("ip", "-br", "link").stdout.split()
    expect("nicpf" in links and "nicup" not in links and "br0" not in links, f"the host's links: {links}")
    expect("ovs" not in host("ps", "axww").stdout, "the host sees processes of the DPU")
    for words in (["ls", str(setup.folder / "card.sock")], ["umount", str(setup.folder)],
                  ["kill", "-0", str(setup.process())], [setup.verbatim, "nic", "flows", "--name", "ovs"],
                  ["ovs-vsctl", f"--db=unix:{setup.folder}/db.sock", "-t", "2", "show"]):
        expect(host(*words).returncode != 0, f"the host may do: {' '.join(words)}")
    holder = (setup.folder / "host.pid").read_text(encoding="utf-8").strip()
    owner = os.stat(f"/proc/{holder}").st_uid
    expect((owner == os.getuid()) == (os.getuid() != 0), f"the host's user is {owner}")


SAME = [ports_are_offloaded, counters_are_exact, software_sees_almost_nothing, show_tells_what_runs, flows_outlive_a_stop,
        rdma_nodes_use_functions, idle_flows_end, mac_and_link_are_the_switchs]
OF_A_DPU = [host_has_functions_only]


def main():
    build = os.path.abspath(sys.argv[1])
    skip_without(build)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        return run(SetUp(build, "host"), SAME) + run(SetUp(build, "dpu"), SAME + OF_A_DPU)


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
