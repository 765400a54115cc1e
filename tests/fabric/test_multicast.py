#!/usr/bin/env python3
"""Multicast between hosts: groups are joined by the subnet administrator, and their datagrams cross three switches to
the members. Debian's perftest and mckey; members that are killed leave."""

import re
import sys
import unittest

from fabricbed import HOSTS, TRIANGLE, FabricBed, run_tests, wait_for_text

from testbed import SKIPPED, are_installed, option_parser, wait_until

BED = None  # Set in main.
MANAGER = None
SECONDS_MAX = 60
GROUP = "239.1.2.3"
GROUP_GID = "ff12:4001:ffff::f01:203"
PERFTEST_GID = "255:1:0:0:0:2:201:133:0:0:0:0:0:0:0:1"  # perftest writes a GID as bytes.


def address_of(host):
    return BED.hosts()[host]["address"]


def members(gid=GROUP_GID):
    """The hosts that are in the group, as the subnet administrator says."""
    found, group = set(), None
    # The administrator shows members of all ports only to a client that has its key.
    said = BED.run("H3", "saquery", "--smkey", "1", "-m", check=False)
    for name, value in re.findall(r"(MGID|NodeDescription)\.+(.*)", said):
        if name == "MGID":
            group = value.strip()
        elif group == gid:
            found.add(value.split()[0])
    return found


def wait_for_members(*hosts):
    wait_until(lambda: members() == set(hosts), SECONDS_MAX, f"the group to have the members {hosts}")


def start_mckey(host, *options):
    return BED.start(host, "mckey", "-m", GROUP, "-b", address_of(host), *options)


class Perftest(unittest.TestCase):
    def test_bandwidth(self):
        count = 500  # Fewer than the server's receive requests: a datagram that finds none is lost.
        said = BED.run_pair("H1", "H4", "ib_send_bw", "-F", "-c", "UD", "-g", "-n", str(count), "-M", PERFTEST_GID)
        self.assertRegex(said, rf"(?m)^ *\d+ +{count} +")

    def test_latency(self):
        said = BED.run_pair("H1", "H4", "ib_send_lat", "-F", "-c", "UD", "-g", "-n", "500")
        self.assertRegex(said, r"(?m)^ *2 +500 +")


class RdmaCm(unittest.TestCase):
    def test_all_members_receive(self):
        receivers = [start_mckey(host) for host in ("H1", "H4")]
        wait_for_members("H1", "H4")
        sender = start_mckey("H2", "-s", "-o")  # It only sends.
        for program in (sender, *receivers):
            self.assertEqual(program.wait(SECONDS_MAX), 0)
        wait_for_members()

    def test_killed_members_leave(self):
        receivers = {host: start_mckey(host) for host in ("H1", "H2", "H4")}
        wait_for_members("H1", "H2", "H4")
        BED.end(receivers["H2"])
        wait_for_members("H1", "H4")
        BED.end(receivers["H1"])
        BED.end(receivers["H4"])
        wait_for_members()

    def test_members_join_again_at_a_new_manager(self):
        """It has forgotten the group, and says so to the ports."""
        global MANAGER
        receivers = [start_mckey(host) for host in ("H1", "H4")]
        watch = BED.start("H2", "stdbuf", "-oL", "ibv_asyncwatch")
        wait_for_members("H1", "H4")
        BED.end(MANAGER)
        MANAGER, _ = BED.start_manager("H3")
        wait_for_members("H1", "H4")
        sender = start_mckey("H2", "-s")
        for program in (sender, *receivers):
            self.assertEqual(program.wait(SECONDS_MAX), 0)
        wait_for_text(f"{BED.folder}/stdbuf-H2.out", "IBV_EVENT_CLIENT_REREGISTER")
        BED.end(watch)


def main():
    global BED, MANAGER
    options = option_parser(__doc__).parse_args()
    if not are_installed("opensm", "saquery", "ib_send_bw", "ib_send_lat", "mckey", "ibv_asyncwatch"):
        return SKIPPED
    with FabricBed(options) as BED:
        BED.up(TRIANGLE)
        MANAGER, _ = BED.start_manager("H1")
        BED.wait_until_active(*HOSTS)
        run_tests()
    return 0


if __name__ == "__main__":
    sys.exit(main())
