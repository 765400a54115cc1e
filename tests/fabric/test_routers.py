#!/usr/bin/env python3
"""Two subnets, each with its opensm, and the router between them: Debian's programs of rdma_cm and datagrams with a
GRH cross it; what cannot is counted."""

import ipaddress
import os
import re
import sys
import unittest

from fabricbed import FabricBed, HostsTestbed, run_tests, text_of

from test_rdmacm import run_pair
from testbed import SKIPPED, are_installed, option_parser, wait_until

BED = None  # Set in main.
OPTIONS = None
SECONDS_MAX = 60
HOSTS = {"a": "H1", "b": "H3"}  # Of different subnets.
ROUTER, TO_H1, TO_H3 = "R1", 1, 2  # And its ports.
SIZE, COUNT = 65536, 100
PYTHON = "/usr/bin/python3"  # Debian's, which has pyverbs.
DATAGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "routed_datagrams.py")


def forwarded(port):
    """The bytes that have left the router by the port."""
    return BED.bytes_sent(ROUTER, port)


class Subnets(unittest.TestCase):
    def test_prefixes_differ(self):
        gids = [re.search(r"GID\[ *0\]:\s*([0-9a-f:]+)", BED.run(host, "ibv_devinfo", "-v")).group(1)
                for host in ("H1", "H2", "H3", "H4")]
        prefixes = [ipaddress.IPv6Address(gid).packed[:8] for gid in gids]
        self.assertEqual(prefixes[0], prefixes[1])
        self.assertEqual(prefixes[2], prefixes[3])
        self.assertNotEqual(prefixes[0], prefixes[2])

    def test_tools_see_the_router_and_their_own_subnet(self):
        for host in HOSTS.values():
            self.assertRegex(BED.run(host, "ibrouters"), rf'Rt\s*: 0x[0-9a-f]+ ports 2 "{ROUTER}"')
            self.assertEqual(len(re.findall("(?m)^Ca", BED.run(host, "ibhosts"))), 2)

    def test_check_finds_nothing(self):
        self.assertEqual(BED.verbatim("fabric", "check"), "")


class Connections(unittest.TestCase):
    def test_programs_of_rdma_cm(self):
        with HostsTestbed(OPTIONS, BED, HOSTS) as testbed:
            run_pair(testbed, "rping", "rping -s -v -a {a} -p {port} -C 20", "rping -c -v -a {a} -p {port} -C 20")
            before = [forwarded(port) for port in (TO_H1, TO_H3)]
            options = f"-R -F -s {SIZE} -n {COUNT} -p {{port}}"
            run_pair(testbed, "ib_write_bw", f"ib_write_bw {options}", f"ib_write_bw {options} {{a}}")
            run_pair(testbed, "ib_read_bw", f"ib_read_bw {options}", f"ib_read_bw {options} {{a}}")
            for port, count in zip((TO_H1, TO_H3), before):
                self.assertGreaterEqual(forwarded(port) - count, SIZE * COUNT)

    def test_programs_of_one_subnet_do_not_cross_it(self):
        before = forwarded(TO_H3)
        BED.run_pair("H1", "H2", "ib_write_bw", "-F", "-s", str(SIZE), "-n", str(COUNT))
        self.assertLess(forwarded(TO_H3) - before, SIZE)


class Datagrams(unittest.TestCase):
    def test_hops_and_prefixes(self):
        """Of four datagrams only the last two arrive: the receiver sees those first."""
        receiver = BED.start("H3", PYTHON, "-B", DATAGRAMS, "receive", "2")
        output = f"{BED.folder}/{os.path.basename(PYTHON)}-H3.out"
        wait_until(lambda: "\n" in text_of(output), SECONDS_MAX, "the receiver's address")
        gid, qpn = text_of(output).split()[:2]
        lid = BED.lids()[ROUTER]
        prefix, _, rest = gid.partition(":")
        self.assertEqual(prefix, "fec0")
        ways = [f"{lid},{gid},1", f"{lid},fec1:{rest},64", f"{lid},{gid},2", f"{lid},{gid},64"]
        discards, errors = self.counts()
        BED.run("H1", PYTHON, "-B", DATAGRAMS, "send", qpn, *ways)
        self.assertEqual(receiver.wait(SECONDS_MAX), 0)
        self.assertEqual(text_of(output).splitlines()[1:],
                         [f"{ways[2]} hop limit 1", f"{ways[3]} hop limit 63"])
        self.assertEqual(self.counts(), (discards + 1, errors + 1))

    @staticmethod
    def counts():
        return BED.counter("PortXmitDiscards", ROUTER, TO_H3), BED.counter("PortRcvSwitchRelayErrors", ROUTER, TO_H1)


def main():
    global BED, OPTIONS
    OPTIONS = option_parser(__doc__).parse_args()
    if not are_installed("opensm", "perfquery", "ibrouters", "rping", "ib_write_bw", "ibv_devinfo", PYTHON):
        return SKIPPED
    with FabricBed(OPTIONS) as BED:
        topology = BED.verbatim("fabric", "generate", "two-subnets", "--hosts", "4", "--switch-ports", "6")
        BED.up(topology, "--manager", "opensm")
        run_tests()
    return 0


if __name__ == "__main__":
    sys.exit(main())
