#!/usr/bin/env python3
"""Network namespaces joined by a veth pair, as machines are by an Ethernet cable: programs of both on the hosts of one
fabric, and a fabric in each, joined by a trunk."""

import sys
import unittest

from fabricbed import CHAIN, FabricBed, run_tests

from namespaces import enter_user_namespace, joined_by_veth
from testbed import SKIPPED, are_installed, option_parser

OPTIONS = None  # Set in main.
SECONDS_MAX = 60


class Namespaces(unittest.TestCase):
    def setUp(self):
        self.peer, self.address, self.peer_address = self.enterContext(joined_by_veth())
        self.there = ("nsenter", "--net", "--target", str(self.peer.pid), "--")
        self.bed = FabricBed(OPTIONS, address=self.address)
        self.bed.end_with(self)

    def write(self, server_bed, server_host, client_bed, client_host, *options):
        server, command = server_bed.start_server(server_host, "ib_write_bw", "-F", "-n", "500", *options)
        client_bed.run(client_host, *command)
        self.assertEqual(server.wait(SECONDS_MAX), 0)

    def test_programs_of_both_on_one_fabric(self):
        self.bed.up(CHAIN)
        self.bed.start_manager("H1")
        self.bed.wait_until_active("H1")
        server, command = self.bed.start_server("H1", "ib_write_bw", "-F", "-n", "500")
        with self.bed.elsewhere(self.there, self.peer_address):
            self.bed.wait_until_active("H2")
            self.bed.run("H2", *command)
        self.assertEqual(server.wait(SECONDS_MAX), 0)
        with self.bed.elsewhere(self.there, self.peer_address):
            server, command = self.bed.start_server("H2", "ib_send_bw", "-F", "-n", "500", "-c", "UD")
        self.bed.run("H1", *command)
        self.assertEqual(server.wait(SECONDS_MAX), 0)

    def test_a_fabric_in_each_and_a_trunk(self):
        other = FabricBed(OPTIONS, prefix=self.there, address=self.peer_address)
        other.end_with(self)
        for bed, naming, manager in ((self.bed, (), "opensm"), (other, ("--guid-base", "1", "--name-prefix", "b-"), "none")):
            bed.up(bed.verbatim("fabric", "generate", "fat-tree", "--hosts", "2", *naming), "--manager", manager)
        self.bed.verbatim("fabric", "trunk", "L1/36", "--listen", f"{self.address}:4800")
        other.verbatim("fabric", "trunk", "b-L1/36", "--to", f"{self.address}:4800")
        self.bed.wait_until_active("H1", "H2")
        other.wait_until_active("b-H1", "b-H2")
        self.write(self.bed, "H1", other, "b-H1")
        self.write(other, "b-H2", self.bed, "H2", "-s", "8")
        for bed in (self.bed, other):
            self.assertEqual(bed.verbatim("fabric", "check"), "")


def main():
    global OPTIONS
    OPTIONS = option_parser(__doc__).parse_args()
    if not are_installed("opensm", "ibstat", "ib_write_bw", "nsenter"):
        return SKIPPED
    enter_user_namespace()
    run_tests()
    return 0


if __name__ == "__main__":
    sys.exit(main())
