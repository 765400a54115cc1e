#!/usr/bin/env python3
"""Two fabrics, each with a daemon and a runtime folder of its own as on two machines, whose switches a trunk joins: one
subnet manager manages both, diagnostic programs see both, and programs of one write to hosts of the other."""

import os
import random
import signal
import socket
import sys
import threading
import unittest

from fabricbed import SECONDS_MAX, FabricBed, run_tests

from testbed import SKIPPED, Failure, are_installed, free_ports, option_parser, wait_until

OPTIONS = None  # Set in main.
TRUNK = "L1/36"  # At the switch of fabric A, which has the manager.
PEER_TRUNK = "b-L1/35"
HOSTS = ("H1", "b-H1")


class LossyNetwork(threading.Thread):
    """Carries datagrams between two UDP ports of this machine, and loses some: it stands where each side has the other's
    address. Ends with the process."""

    def __init__(self, ports, loss):
        super().__init__(daemon=True)
        self._loss = loss
        self._random = random.Random(1)
        self.lost = 0
        self._sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in ports]
        for one in self._sockets:
            one.bind(("127.0.0.1", 0))
        self._peers = [("127.0.0.1", port) for port in ports]

    def ports(self):
        """Where the sides find each other: the first one's peer, the second one's."""
        return [one.getsockname()[1] for one in self._sockets]

    def run(self):
        def carry(here, there):
            # What comes to the socket that the first side knows goes out from the one that the second side knows.
            while True:
                datagram = self._sockets[here].recv(65536)
                if self._random.random() < self._loss:
                    self.lost += 1
                else:
                    self._sockets[there].sendto(datagram, self._peers[there])
        threading.Thread(target=carry, args=(1, 0), daemon=True).start()
        carry(0, 1)


class Trunks(unittest.TestCase):
    def setUp(self):
        self.ports = free_ports()
        self.a = self.bed()
        self.b = self.bed()
        self.up(self.a, [], "--manager", "opensm")
        self.up(self.b, ["--guid-base", "1", "--name-prefix", "b-"])

    def bed(self):
        bed = FabricBed(OPTIONS)
        self.addCleanup(bed.__exit__, None, None, None)
        return bed

    @staticmethod
    def up(bed, naming, *options):
        topology = bed.verbatim("fabric", "generate", "fat-tree", "--hosts", "2", *naming)
        bed.up(topology, *options)

    def plug(self):
        """B knows A's address, A takes who comes."""
        self.address = f"127.0.0.1:{next(self.ports)}"
        self.a.verbatim("fabric", "trunk", TRUNK, "--listen", self.address)
        self.b.verbatim("fabric", "trunk", PEER_TRUNK, "--to", self.address)
        self.wait_until_one_subnet()

    def wait_until_one_subnet(self):
        self.a.wait_until_active("H1")
        self.b.wait_until_active("b-H1", "b-H2")

    @staticmethod
    def trunk(bed):
        (trunk,) = bed.status()["trunks"]
        return trunk

    def wait_for_state(self, bed, state):
        wait_until(lambda: self.trunk(bed)["state"] == state, SECONDS_MAX, f"a trunk that is {state}")

    def nodes_seen(self):
        seen = self.a.run("H1", "ibnetdiscover")
        return seen.count("\nCa\t"), seen.count("\nSwitch\t")

    def write(self, server_bed, server_host, client_bed, client_host, *options):
        # On a busy machine a daemon may get no processor for half a second: as long as perftest's own time-outs last.
        server, command = server_bed.start_server(server_host, "ib_write_bw", "-F", "-u", "18", *options)
        said = client_bed.run(client_host, *command)
        self.assertEqual(server.wait(SECONDS_MAX), 0)
        return said

    def test_one_manager_makes_both_one_subnet(self):
        self.assertEqual(self.nodes_seen(), (2, 1))
        self.plug()
        self.assertEqual(self.nodes_seen(), (4, 2))
        lids = list((self.a.lids() | self.b.lids()).values())
        self.assertEqual(len(set(lids)), 6)
        self.assertNotIn(0, lids)
        self.assertIn("4X", self.a.run("H1", "iblinkinfo"))
        for bed in (self.a, self.b):
            self.assertEqual(bed.verbatim("fabric", "check"), "")
        self.assertIn(self.address, self.a.verbatim("fabric", "show"))

    def test_fabrics_with_the_same_guids_are_not_joined(self):
        twin = self.bed()
        self.up(twin, [])
        address = f"127.0.0.1:{next(self.ports)}"
        self.a.verbatim("fabric", "trunk", TRUNK, "--listen", address)
        twin.verbatim("fabric", "trunk", TRUNK, "--to", address)
        for bed in (self.a, twin):
            wait_until(lambda: "both sides have the node GUID" in bed.verbatim("fabric", "show"), SECONDS_MAX,
                       "the fault of a trunk")
            self.assertEqual(self.trunk(bed)["state"], "down")
        self.assertEqual(self.nodes_seen(), (2, 1))

    def test_programs_write_to_hosts_of_the_other_fabric(self):
        self.plug()
        for options in (["-s", "65536", "-n", "1000"], ["-s", "8", "-n", "20000"], ["-s", "65536", "-n", "500", "-b"]):
            self.write(self.b, "b-H1", self.a, "H1", *options)
            self.write(self.a, "H2", self.b, "b-H2", *options)
        self.assertGreater(self.a.counter("PortXmitData", "L1", 36, "-x"), 1000 * 65536 / 4)
        for bed in (self.a, self.b):
            self.assertEqual(bed.verbatim("fabric", "check"), "")

    def test_a_host_alone_joins_a_fabric(self):
        far = self.bed()
        far.up('Hca 1 "far"\n')
        address = f"127.0.0.1:{next(self.ports)}"
        far.verbatim("fabric", "trunk", "far/1", "--listen", address)
        self.a.verbatim("fabric", "trunk", TRUNK, "--to", address)
        far.wait_until_active("far")
        self.write(far, "far", self.a, "H1", "-n", "100")

    def test_an_end_that_is_taken_out_takes_the_other_down_and_comes_again(self):
        self.plug()
        self.a.verbatim("fabric", "link", TRUNK, "down")
        self.wait_for_state(self.b, "down")
        wait_until(lambda: self.nodes_seen() == (2, 1), SECONDS_MAX, "a subnet without the other fabric")
        self.a.verbatim("fabric", "link", TRUNK, "up")
        self.wait_for_state(self.b, "active")
        self.write(self.b, "b-H1", self.a, "H1", "-n", "100")

    def test_a_killed_daemon_takes_the_other_side_down_and_a_new_one_comes_again(self):
        self.plug()
        os.kill(self.b.daemon(), signal.SIGKILL)
        self.wait_for_state(self.a, "down")
        self.up(self.b, ["--guid-base", "1", "--name-prefix", "b-"])
        self.b.verbatim("fabric", "trunk", PEER_TRUNK, "--to", self.address)
        self.wait_until_one_subnet()
        self.write(self.b, "b-H1", self.a, "H1", "-n", "100")

    def test_what_the_network_loses_is_sent_again(self):
        ports = [next(self.ports), next(self.ports)]
        network = LossyNetwork(ports, loss=0.02)
        network.start()
        for bed, place, port, peer in zip((self.a, self.b), (TRUNK, PEER_TRUNK), ports, network.ports()):
            bed.verbatim("fabric", "trunk", place, "--listen", f"127.0.0.1:{port}", "--to", f"127.0.0.1:{peer}")
        self.wait_until_one_subnet()
        self.write(self.b, "b-H1", self.a, "H1", "-s", "65536", "-n", "100", "-u", "18")
        self.assertGreater(network.lost, 0)
        self.assertGreater(self.trunk(self.a)["repeated"] + self.trunk(self.b)["repeated"], 0)

    def test_what_cannot_be_is_refused(self):
        def refuses(words, *options):
            with self.assertRaisesRegex(Failure, words):
                self.a.verbatim("fabric", *options)
        to = ("--to", "127.0.0.1:4800")
        refuses("has a cable", "trunk", "L1/1", *to)
        refuses("has ports 1 to 36", "trunk", "L1/37", *to)
        refuses("other side", "trunk", "L1/36")
        for address in ("localhost", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:65536", "::1:4800"):
            refuses("no address such as", "trunk", "L1/36", "--to", address)
        refuses("no rate such as", "trunk", "L1/36", *to, "--rate", "fast")
        refuses("IPv4", "trunk", "L1/36", "--listen", "[::1]:4800", *to)
        self.a.verbatim("fabric", "trunk", "L1/36", *to)
        refuses("has a cable", "trunk", "L1/36", *to)
        refuses("down or up", "link", "L1/36", "degrade", "1x")
        self.assertEqual(self.trunk(self.a)["state"], "down")


def main():
    global OPTIONS
    OPTIONS = option_parser(__doc__).parse_args()
    if not are_installed("opensm", "ibstat", "ibnetdiscover", "iblinkinfo", "perfquery", "ib_write_bw"):
        return SKIPPED
    run_tests()
    return 0


if __name__ == "__main__":
    sys.exit(main())
