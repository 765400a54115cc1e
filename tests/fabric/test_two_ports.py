#!/usr/bin/env python3
"""Hosts with two ports, each at a switch of its own: Debian's programs choose one by number, and the switches' counters
say which one the data took."""

import re
import sys
import unittest

from fabricbed import FabricBed, run_tests, wait_for_text

from testbed import SKIPPED, are_installed, option_parser, wait_until

BED = None  # Set in main.
SECONDS_MAX = 60
HOSTS = ("H1", "H2")
# (switch, port) of each host's ports: the switch has the hosts in their order.
CABLES = {("H1", 1): ("L1", 1), ("H2", 1): ("L1", 2), ("H1", 2): ("L2", 1), ("H2", 2): ("L2", 2)}


def devinfo(host):
    """What ibv_devinfo says of each port: its fields by name, and its GIDs."""
    said = BED.run(host, "ibv_devinfo", "-v")
    ports = re.split(r"\n\s+port:\s+", said)[1:]
    return [dict(re.findall(r"^\s+(\w+(?:\[\s*\d+\])?):\s+(\S+)", text, re.MULTILINE)) for text in ports]


def received():
    """Bytes that each port of a host has got from its switch."""
    return {port: BED.bytes_sent(*switch) for port, switch in CABLES.items()}


class TwoPorts(unittest.TestCase):
    def crosses(self, wanted, server, client, *argv):
        """Runs a pair; `server` and `client` are (host, port). Ports get at least the bytes that are `wanted`, and the
        others no data: no more than managers say."""
        before = received()
        program, command = BED.start_server(server[0], *argv, "-i", str(server[1]))
        place = len(argv) + 1
        said = BED.run(client[0], *command[:place], str(client[1]), *command[place + 1:])
        self.assertEqual(program.wait(SECONDS_MAX), 0)
        for port, after in received().items():
            got = after - before[port]
            if port in wanted:
                self.assertGreaterEqual(got, wanted[port], said)
            else:
                self.assertLess(got, min(wanted.values()) / 2, f"{port}: {said}")

    def test_devinfo_shows_both(self):
        self.assertRegex(BED.run("H1", "ibv_devinfo"), r"phys_port_cnt:\s+2\n")
        shown = BED.nodes()["H1"]["ports"]
        ports = devinfo("H1")
        self.assertEqual(len(ports), 2)
        for port, expected in zip(ports, shown):
            self.assertEqual((port["state"], port["link_layer"]), ("PORT_ACTIVE", "InfiniBand"))
            self.assertEqual(int(port["port_lid"]), expected["lid"])
            guid = int(expected["guid"], 16)
            words = [f"{guid >> shift & 0xffff:04x}" for shift in (48, 32, 16, 0)]
            self.assertEqual(port["GID[  0]"], ":".join(("fe80:0000:0000:0000", *words)))

    def test_pingpongs_on_port_2(self):
        size, count = 1024, 200
        for kind in ("rc", "uc", "ud", "srq"):
            with self.subTest(kind):
                bytes_min = size * count
                self.crosses({("H1", 2): bytes_min, ("H2", 2): bytes_min}, ("H1", 2), ("H2", 2),
                             f"ibv_{kind}_pingpong", "-c", "-s", str(size), "-n", str(count))

    def test_bandwidth_on_port_2(self):
        size, count = 65536, 500
        bandwidth = ("-s", str(size), "-n", str(count), "-F")
        for program, receiver in (("ib_write_bw", "H1"), ("ib_send_bw", "H1"), ("ib_read_bw", "H2")):
            with self.subTest(program):
                self.crosses({(receiver, 2): size * count}, ("H1", 2), ("H2", 2), program, *bandwidth)

    def test_between_the_ports_of_a_host(self):
        size, count = 65536, 500
        bandwidth = ("-s", str(size), "-n", str(count), "-F")
        self.crosses({("H1", 1): size * count}, ("H1", 1), ("H1", 2), "ib_write_bw", *bandwidth)
        self.crosses({("H1", 2): size * count}, ("H1", 2), ("H1", 1), "ib_write_bw", *bandwidth)

    def test_from_port_1_to_port_2(self):
        size, count = 65536, 500
        self.crosses({("H1", 1): size * count}, ("H1", 1), ("H2", 2), "ib_write_bw", "-s", str(size), "-n", str(count),
                     "-F")

    def test_multicast_on_port_2(self):
        size, count = 2048, 400  # Fewer than the receive requests: a datagram that finds none is lost.
        self.crosses({("H1", 2): size * count}, ("H1", 2), ("H2", 2), "ib_send_bw", "-F", "-c", "UD", "-g", "-s",
                     str(size), "-n", str(count), "-M", "255:1:0:0:0:2:201:133:0:0:0:0:0:0:0:1")

    def test_events_name_the_port(self):
        watch = BED.start("H2", "stdbuf", "-oL", "ibv_asyncwatch")
        log = f"{BED.folder}/stdbuf-H2.out"
        wait_for_text(log, "async event FD")
        BED.verbatim("fabric", "link", "H2/2", "down")
        wait_for_text(log, "IBV_EVENT_PORT_ERR (10), port 2")
        self.assertEqual([port["state"] for port in devinfo("H2")], ["PORT_ACTIVE", "PORT_DOWN"])
        BED.verbatim("fabric", "link", "H2/2", "up")
        wait_for_text(log, "IBV_EVENT_PORT_ACTIVE (9), port 2")
        BED.end(watch)


def main():
    global BED
    options = option_parser(__doc__).parse_args()
    if not are_installed("opensm", "perfquery", "ibv_rc_pingpong", "ib_write_bw"):
        return SKIPPED
    with FabricBed(options) as BED:
        BED.up(BED.verbatim("fabric", "generate", "fat-tree", "--hosts", str(len(HOSTS)), "--ports", "2"))
        BED.start_manager("H1")
        wait_until(lambda: all(BED.run(host, "ibstat").count("State: Active") == 2 for host in HOSTS), SECONDS_MAX,
                   "both ports of each host to be active")
        run_tests()
    return 0


if __name__ == "__main__":
    sys.exit(main())
