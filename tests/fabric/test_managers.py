#!/usr/bin/env python3
"""Two of Debian's opensm on one fabric: one is master, the other takes over when it is killed; a third on a port that
has one is refused."""

import pathlib
import sys

from fabricbed import HOSTS, TRIANGLE, FabricBed, text_of, wait_for_text

from testbed import SKIPPED, Failure, are_installed, option_parser, wait_until

SECONDS_MAX = 60
PREFIX = 0xFEC0 << 48


def state_of(bed, host):
    """As the manager at the host's port says of itself."""
    return bed.run(host, "sminfo", "-D", "0", check=False)


def wait_for_state(bed, host, state):
    wait_until(lambda: state in state_of(bed, host), SECONDS_MAX, f"the manager on {host} to be {state}")


def master_fails_and_standby_takes_over(bed):
    first, log = bed.start_manager("H1")
    wait_for_text(log, "SUBNET UP")
    # Its files are the fabric's, and not those of the machine's own manager, which belong to root.
    wait_until(lambda: list(pathlib.Path(bed.folder).rglob("fabric-default/guid2lid")), SECONDS_MAX, "LIDs in a file")
    _, log_of_second = bed.start_manager("H3")
    wait_for_state(bed, "H1", "SMINFO_MASTER")
    wait_for_state(bed, "H3", "SMINFO_STANDBY")
    bed.end(first)
    wait_for_state(bed, "H3", "SMINFO_MASTER")
    wait_for_text(log_of_second, "SUBNET UP")
    wait_until(lambda: "SMINFO_MASTER" in bed.run("H2", "sminfo", check=False), SECONDS_MAX,
               "hosts to know the new master")
    print("passed: master fails, standby takes over")


def higher_priority_takes_over(bed):
    """The master, on H3, hands over."""
    _, log = bed.start_manager("H2", "-p", "5")
    wait_for_text(log, "SUBNET UP")
    wait_for_state(bed, "H2", "SMINFO_MASTER")
    wait_for_state(bed, "H3", "SMINFO_STANDBY")
    print("passed: higher priority takes over")


def new_prefix_changes_gids(bed):
    """Programs that run are told, and find the new one in the port's GID table."""
    watch = bed.start("H4", "stdbuf", "-oL", "ibv_asyncwatch")
    wait_for_text(f"{bed.folder}/stdbuf-H4.out", "async event FD")
    manager, log = bed.start_manager("H4", "-p", "9", settings=f"subnet_prefix {PREFIX:#x}\n")
    wait_for_text(log, "SUBNET UP")
    wait_for_text(f"{bed.folder}/stdbuf-H4.out", "IBV_EVENT_GID_CHANGE")
    bed.end(watch)
    for host in HOSTS:
        wait_until(lambda host=host: f"{PREFIX >> 48:x}:0000:" in bed.run(host, "ibv_devinfo", "-v"), SECONDS_MAX,
                   f"the new GID of {host}")
    bed.run_pair("H1", "H2", "ibv_rc_pingpong", "-g", "0")
    bed.end(manager)
    print("passed: a new prefix changes GIDs")


def second_on_a_port_is_refused(bed):
    second, log = bed.start_manager("H2", "-f", f"{bed.folder}/refused.log")
    wait_until(lambda: second.poll() is not None, SECONDS_MAX, "a second manager on a port to end")
    if "Unable to register" not in text_of(f"{bed.folder}/refused.log"):
        raise Failure(f"it was not refused: {text_of(log)}")
    print("passed: a second one on a port is refused")


def main():
    options = option_parser(__doc__).parse_args()
    if not are_installed("opensm", "sminfo", "ibv_asyncwatch", "ibv_devinfo", "ibv_rc_pingpong"):
        return SKIPPED
    with FabricBed(options) as bed:
        bed.up(TRIANGLE)
        master_fails_and_standby_takes_over(bed)
        higher_priority_takes_over(bed)
        second_on_a_port_is_refused(bed)
        new_prefix_changes_gids(bed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
