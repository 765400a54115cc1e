#!/usr/bin/env python3
"""Connections to InfiniBand services by AF_IB between two hosts, across three switches: any service id has listeners,
ranges of them, too, and a connection is in the partition that the client names."""

import sys
import unittest

from fabricbed import CHAIN, FabricBed, run_tests, wait_for_text

from testbed import SKIPPED, are_installed, option_parser, wait_until

OPTIONS = BED = GID = None  # Set in main.
SECONDS_MAX = 60
SRP, SDP, IPOIB = 0x0200000000100000, 0x11389, 0x1000000000000048
WHOLE, ANY_QUEUE_PAIR = 0xFFFFFFFFFFFFFFFF, 0xFFFFFFFFFF000000
TCP_PORT = 0x106162C  # Port 5676 of RDMA_PS_TCP.
ANY_IB_PORT, IB_PORTS = 0x13F0000, 0xFFFFFFFFFFFF0000
DEFAULT, BLUE, STRANGER = 0xFFFF, 0x9001, 0xA002
INVALID_SERVICE = "rdma_connect: ECONNREFUSED\n"


class Services(unittest.TestCase):
    def program(self):
        return f"{BED.build}/bin/ib_service"

    def listen(self, service, mask=WHOLE, space="ib"):
        """Returns the program, which listens already, and what it has printed."""
        server = BED.start_dialogue("H1", self.program(), "serve", space, hex(service), hex(mask))
        self.addCleanup(BED.end, server)
        return server, server.stdout.readline()

    def ask(self, service, space="ib", pkey=DEFAULT):
        return BED.run("H2", self.program(), "ask", space, hex(service), GID, hex(pkey), check=False)

    def connect(self, server, service, space="ib", pkey=DEFAULT):
        self.assertEqual(self.ask(service, space, pkey), f"accepted: 196 bytes, pkey {pkey:#x}\n")
        self.assertEqual(server.stdout.readline(), f"service {service:#x}: 92 bytes, hello, pkey {pkey:#x}\n")

    def test_each_program_has_its_service(self):
        servers = {}
        for service in (SRP, SDP, IPOIB, TCP_PORT):
            servers[service], said = self.listen(service)
            self.assertEqual(said, f"listens at {service:#x} mask {WHOLE:#x}\n")
        before = BED.bytes_sent("S2", 1)
        for service, server in servers.items():
            self.connect(server, service)
        self.assertGreater(BED.bytes_sent("S2", 1), before)
        self.assertEqual(self.ask(SRP + 1), INVALID_SERVICE)

    def test_a_range_has_one_listener(self):
        server, said = self.listen(IPOIB, ANY_QUEUE_PAIR)
        self.assertEqual(said, f"listens at {IPOIB & ANY_QUEUE_PAIR:#x} mask {ANY_QUEUE_PAIR:#x}\n")
        for service in (IPOIB, IPOIB + 1, IPOIB | 0xFFFFFF):
            self.connect(server, service)
        self.assertEqual(self.ask(IPOIB + (1 << 24)), INVALID_SERVICE)
        self.assertEqual(self.listen(IPOIB + 5)[1], "rdma_bind_addr: EADDRNOTAVAIL\n")

    def test_a_killed_program_has_no_service(self):
        server, _ = self.listen(SRP)
        self.assertEqual(self.listen(SRP)[1], "rdma_bind_addr: EADDRNOTAVAIL\n")
        BED.end(server)
        wait_until(lambda: "listens" in self.listen(SRP)[1], SECONDS_MAX, "the service to be free")

    def test_a_port_by_its_service_id(self):
        # As Linux, RDMA_PS_IB has the ports of RDMA_PS_TCP, too; without the port's bits, any port is bound.
        server, _ = self.listen(TCP_PORT)
        self.assertEqual(self.listen(TCP_PORT, space="tcp")[1], "rdma_bind_addr: EADDRNOTAVAIL\n")
        self.connect(server, TCP_PORT, space="tcp")
        server, said = self.listen(ANY_IB_PORT, IB_PORTS)
        service = int(said.split()[2], 16)
        self.assertEqual(said, f"listens at {service:#x} mask {WHOLE:#x}\n")
        self.assertGreaterEqual(service - ANY_IB_PORT, 32768)
        self.connect(server, service)
        self.assertEqual(self.listen(SRP, space="tcp")[1], "rdma_bind_addr: EPROTONOSUPPORT\n")

    def test_the_partition_is_the_clients_choice(self):
        server, _ = self.listen(SRP)
        for pkey in (DEFAULT, BLUE):
            self.connect(server, SRP, pkey=pkey)
        self.assertEqual(self.ask(SRP, pkey=STRANGER), "rdma_resolve_addr: ENODEV\n")


def main():
    global OPTIONS, BED, GID
    OPTIONS = option_parser(__doc__).parse_args()
    if not are_installed("opensm", "perfquery"):
        return SKIPPED
    with FabricBed(OPTIONS) as BED:
        BED.up(CHAIN)
        GID = BED.hosts()["H1"]["gid"]
        configuration = f"{BED.folder}/partitions.conf"
        with open(configuration, "w", encoding="ascii") as file:
            file.write("Default=0x7fff : ALL=full;\nblue=0x1001 : ALL=full;\n")
        _, log = BED.start_manager("H1", "-P", configuration)
        wait_for_text(log, "SUBNET UP")
        BED.wait_until_active("H1", "H2")
        for host in ("H1", "H2"):
            keys = ("sh", "-c", "cat /sys/class/infiniband/verbatim0/ports/1/pkeys/*")
            wait_until(lambda host=host: f"{BLUE:#06x}" in BED.run(host, *keys), SECONDS_MAX, f"P_Keys of {host}")
        run_tests()
    return 0


if __name__ == "__main__":
    sys.exit(main())
