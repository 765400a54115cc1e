#!/usr/bin/env python3
"""A receiver that is stopped under a flood of Debian's ib_write_bw: switches wait for credits up to the sender and
count that, and no packet is lost; or, if its host has another program, that one is served."""

import signal
import subprocess
import sys
import time
import unittest

from fabricbed import CHAIN, FabricBed, run_tests, wait_for_text

from testbed import SKIPPED, are_installed, option_parser, wait_until

OPTIONS = None  # Set in main.
SECONDS_MAX = 60
TICK_SECONDS = 1024e-9  # Of PortXmitWait: tick 255 of PortSamplesControl.
TOWARDS_H1 = ("S3", 1), ("S2", 1), ("S1", 1)


class Congestion(unittest.TestCase):
    def setUp(self):
        self.bed = FabricBed(OPTIONS)
        self.bed.end_with(self)
        self.bed.up(CHAIN)
        _, log = self.bed.start_manager("H1")
        wait_for_text(log, "SUBNET UP")
        self.bed.wait_until_active("H1", "H2")

    def counters(self, name):
        return [self.bed.counter(name, switch, port) for switch, port in TOWARDS_H1]

    def start_flood(self):
        """Writes from H2 to H1, which cross already. Returns both programs."""
        # A timeout of 8.6 s outlasts the pause.
        argv = ("ib_write_bw", "-F", "-s", "65536", "-n", "40000", "-u", "21")
        server, command = self.bed.start_server("H1", *argv)
        client = self.bed.start("H2", *command)
        wait_until(lambda: self.bed.bytes_sent("S2", 1) > 4_000_000, SECONDS_MAX, "data")
        return server, client

    def test_a_stopped_program_holds_up_no_other_of_its_host(self):
        # It does if it was stopped in the middle of moving packets, as few are.
        wait_until(self.another_writes_beside_a_stopped_one, 2 * SECONDS_MAX, "another program to be served")

    def another_writes_beside_a_stopped_one(self):
        server, client = self.start_flood()
        other, command = self.bed.start_server("H1", "ib_write_bw", "-F", "-n", "1000")
        server.send_signal(signal.SIGSTOP)
        writer = self.bed.start("H2", *command)
        try:
            return writer.wait(SECONDS_MAX / 6) == 0
        except subprocess.TimeoutExpired:
            return False
        finally:
            for program in (client, server, other, writer):
                self.bed.end(program)

    def waits_while_stopped(self, server):
        """Whether the first switch of the flow counts a tenth of a second. It does not if the server was stopped
        in the middle of moving packets across this very link."""
        server.send_signal(signal.SIGSTOP)
        before = self.bed.counter("PortXmitWait", *TOWARDS_H1[0])
        end = time.monotonic() + 1
        waits = False
        while not waits and time.monotonic() < end:
            waits = (self.bed.counter("PortXmitWait", *TOWARDS_H1[0]) - before) * TICK_SECONDS > 0.1
        server.send_signal(signal.SIGCONT)
        return waits

    def test_a_stopped_receiver_makes_all_hops_wait_and_loses_nothing(self):
        began = time.monotonic()
        server, client = self.start_flood()
        wait_until(lambda: self.waits_while_stopped(server), SECONDS_MAX, "S3 to wait")
        self.assertEqual([client.wait(SECONDS_MAX), server.wait(SECONDS_MAX)], [0, 0])
        for waited in self.counters("PortXmitWait"):  # Each no longer than time passes.
            self.assertLess(waited * TICK_SECONDS, time.monotonic() - began)
        self.assertEqual(self.counters("PortXmitDiscards"), [0, 0, 0])
        self.assertEqual(self.bed.verbatim("fabric", "check"), "")


def main():
    global OPTIONS
    OPTIONS = option_parser(__doc__).parse_args()
    if not are_installed("opensm", "perfquery", "ib_write_bw"):
        return SKIPPED
    run_tests()
    return 0


if __name__ == "__main__":
    sys.exit(main())
