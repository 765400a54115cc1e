#!/usr/bin/env python3
"""Debian's verbs programs between two hosts by LID: the data crosses three switches, whose counters say so."""

import json
import os
import re
import signal
import sys
import unittest

from fabricbed import CHAIN, FabricBed

from testbed import SKIPPED, Testbed, are_installed, listens, option_parser, wait_until

BED = None  # Set in main.
PORTS = None
LIDS = None
SECONDS_MAX = 60
WORD_BYTES = 4  # PortXmitData counts words.
MIDDLE, TO_H1, TO_H2 = "S2", 1, 2  # The switch between the other two, and its ports.


def counter(name, switch, port, *options):
    """As the performance agent of the switch says."""
    text = BED.run("H1", "perfquery", *options, str(LIDS[switch]), str(port))
    return int(re.search(rf"{name}:\.*(\d+)", text)[1])


def words_sent(port):
    return counter("PortXmitData", MIDDLE, port, "-x")


def lids():
    nodes = json.loads(BED.verbatim("fabric", "show", "--json"))["nodes"]
    return {node["name"]: node["ports"][0]["lid"] for node in nodes}


class Verbs(unittest.TestCase):
    def start_server(self, *argv):
        """On H1. Returns the program, and the words that its client needs."""
        port = PORTS.free_port()
        argv = (*argv, "-p", str(port))
        server = BED.start("H1", *argv)
        wait_until(lambda: server.poll() is not None or listens(server.pid, port), SECONDS_MAX, f"{argv[0]} to listen")
        return server, argv

    def start_flood(self, *options):
        """Writes from H2 to H1, which cross already. Returns both programs."""
        before = words_sent(TO_H1)
        server, argv = self.start_server("ib_write_bw", "-F", *options)
        client = BED.start("H2", *argv, "127.0.0.1")
        wait_until(lambda: words_sent(TO_H1) - before > 1_000_000, SECONDS_MAX, "data")
        return server, client

    def between_hosts(self, *argv):
        """Runs the server on H1 and the client on H2. Returns what the client says."""
        server, argv = self.start_server(*argv)
        said = BED.run("H2", *argv, "127.0.0.1")
        self.assertEqual(server.wait(SECONDS_MAX), 0, f"the server {argv[0]}")
        return said

    def crosses(self, *argv, to_h1=0, to_h2=0):
        """Runs both; at least so many bytes have to leave the middle switch in each direction."""
        before = words_sent(TO_H1), words_sent(TO_H2)
        said = self.between_hosts(*argv)
        after = words_sent(TO_H1), words_sent(TO_H2)
        self.assertGreaterEqual((after[0] - before[0]) * WORD_BYTES, to_h1, said)
        self.assertGreaterEqual((after[1] - before[1]) * WORD_BYTES, to_h2, said)

    def test_pingpongs_find_the_content_that_was_sent(self):
        size, count = 1024, 200  # UD: a message is a packet.
        for kind in ("rc", "uc", "ud", "srq"):
            with self.subTest(kind):
                self.crosses(f"ibv_{kind}_pingpong", "-c", "-s", str(size), "-n", str(count), to_h1=size * count,
                             to_h2=size * count)

    def test_messages_of_many_packets(self):
        size, count = 65536, 500
        bandwidth = ("-s", str(size), "-n", str(count), "-F")
        self.crosses("ib_write_bw", *bandwidth, to_h1=size * count)
        self.crosses("ib_send_bw", *bandwidth, to_h1=size * count)
        self.crosses("ib_read_bw", *bandwidth, to_h2=size * count)  # The client reads: data leaves the server.

    def test_atomics(self):
        count, operand_bytes = 1000, 8
        self.crosses("ib_atomic_bw", "-n", str(count), "-F", to_h1=count * operand_bytes, to_h2=count * operand_bytes)

    def test_a_program_that_sleeps_is_woken(self):
        size, count = 4096, 500
        self.crosses("ib_send_bw", "-e", "-s", str(size), "-n", str(count), "-F", to_h1=size * count)
        self.crosses("ibv_rc_pingpong", "-e", "-c", "-n", str(count), to_h1=size * count, to_h2=size * count)

    def test_programs_that_are_killed_leave_the_fabric_to_others(self):
        size, count = 65536, 500
        for number in range(6):
            pair = self.start_flood("-D", "30")
            self.assertEqual([program.poll() for program in pair], [None, None])
            BED.end(pair[number % 2])
            self.assertNotEqual(pair[1 - number % 2].wait(SECONDS_MAX), 0)
        self.crosses("ib_write_bw", "-s", str(size), "-n", str(count), "-F", to_h1=size * count)

    def test_a_slow_receiver_makes_the_switch_wait_and_loses_nothing(self):
        def waited():
            return counter("PortXmitWait", "S1", 1)

        def discarded():
            return [counter("PortXmitDiscards", switch, port) for switch, port in (("S1", 1), ("S2", 1), ("S3", 1))]

        lost = discarded()
        server, client = self.start_flood("-n", "60000", "-u", "21")  # A timeout of 8.6 s outlasts the pause.
        server.send_signal(signal.SIGSTOP)
        before = waited()
        wait_until(lambda: waited() > before, SECONDS_MAX, "PortXmitWait to rise")
        server.send_signal(signal.SIGCONT)
        self.assertEqual([client.wait(SECONDS_MAX), server.wait(SECONDS_MAX)], [0, 0])
        self.assertEqual(discarded(), lost)


def main():
    global BED, PORTS, LIDS
    options = option_parser(__doc__).parse_args()
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    if not are_installed("opensm", "perfquery", "ibv_rc_pingpong", "ib_write_bw"):
        return SKIPPED
    with FabricBed(options) as BED, Testbed(options) as PORTS:
        BED.up(CHAIN, "--manager", "opensm")
        wait_until(lambda: all("State: Active" in BED.run(host, "ibstat") for host in ("H1", "H2")), SECONDS_MAX,
                   "active ports")
        LIDS = lids()
        result = unittest.main(argv=sys.argv[:1], exit=False, verbosity=2).result
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
