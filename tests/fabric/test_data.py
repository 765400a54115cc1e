#!/usr/bin/env python3
"""Packets between hosts of a fat tree whose switches Debian's opensm has programmed."""

import subprocess
import sys
import unittest

from fabricbed import FabricBed, run_tests

from testbed import SKIPPED, are_installed, option_parser, wait_until

BED = None  # Set in main.
COUNT = 20_000
CLOCKS = (("faketime", "-f", "+60s"), ("faketime", "-f", "-60s"), ("faketime", "-f", "+0 x20"),
          ("unshare", "--map-root-user", "--time", "--monotonic", "10000", "--fork"))


def far_pair():
    """Two hosts with three switches between them."""
    for host in BED.hosts():
        if len(BED.hops("H1", host)) >= 3:
            return "H1", host
    raise AssertionError("no two hosts are three switches apart")


def runs(command):
    """Whether this machine has it, and this user may."""
    return are_installed(command[0]) and subprocess.run([*command, "true"], check=False,
                                                        capture_output=True).returncode == 0


def packets(*words, clock=()):
    """`clock`: a command that gives its program another clock."""
    return subprocess.Popen([*clock, f"{BED.build}/bin/packets", *map(str, words)], env=BED.environment(),
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def receiver(host, count=COUNT, clock=()):
    program = packets("receive", host, count, clock=clock)
    line = program.stdout.readline()
    if line != "ready\n":
        raise AssertionError(line + program.stdout.read())
    return program


def transmitted(host):
    """Packets that have left the host's port."""
    return BED.counter("PortXmitPkts", host, 1, "-x")


class Packets(unittest.TestCase):
    def ends(self, program):
        text, _ = program.communicate(timeout=60)
        self.assertEqual(program.returncode, 0, text)

    def test_arrive_in_order_across_three_switches(self):
        source, destination = far_pair()
        before = transmitted(source)
        taker = receiver(destination)
        self.ends(packets("send", source, BED.lids()[destination], COUNT))
        self.ends(taker)
        self.assertGreaterEqual(transmitted(source) - before, COUNT)

    def test_arrive_while_another_sender_is_killed(self):
        source, destination = far_pair()
        # Its receiver does not exist: what it sends is discarded at the host.
        for _ in range(3):
            flood = packets("send", source, BED.lids()["H2"], 0)
            wait_until(lambda count=transmitted(source): transmitted(source) > count, 30, "packets")
            flood.kill()
            flood.communicate()
        taker = receiver(destination)
        self.ends(packets("send", source, BED.lids()[destination], COUNT))
        self.ends(taker)

    def test_a_receiver_that_is_killed_leaves_its_numbers_to_the_next(self):
        source, destination = far_pair()
        taker = receiver(destination)
        second = packets("receive", destination, 1)
        self.assertIn("another program of the host has the queue pair numbers", second.communicate()[0])
        taker.kill()
        taker.communicate()
        taker = receiver(destination)
        self.ends(packets("send", source, BED.lids()[destination], COUNT))
        self.ends(taker)

    def test_programs_with_other_clocks_disturb_no_other(self):
        source, destination = far_pair()
        for clock in CLOCKS:
            if not runs(clock):
                continue
            with self.subTest(clock=clock):
                for sends, takes in ((clock, ()), ((), clock), ((), ())):
                    taker = receiver(destination, clock=takes)
                    self.ends(packets("send", source, BED.lids()[destination], COUNT, clock=sends))
                    self.ends(taker)

    def test_an_unknown_host_is_refused_in_words(self):
        text, _ = packets("receive", "Nobody", 1).communicate()
        self.assertIn("Nobody", text)


def main():
    global BED
    options = option_parser(__doc__).parse_args()
    if not are_installed("opensm", "ibtracert", "perfquery"):
        return SKIPPED
    with FabricBed(options) as BED:
        BED.up(BED.verbatim("fabric", "generate", "fat-tree", "--hosts", "24", "--switch-ports", "8"))
        BED.start_manager("H1")
        wait_until(lambda: "init" not in BED.verbatim("fabric", "show"), 60, "active links")
        run_tests()
    return 0


if __name__ == "__main__":
    sys.exit(main())
