#!/usr/bin/env python3
"""Debian's verbs programs between two hosts by LID: the data crosses three switches, whose counters say so."""

import re
import sys
import unittest

from fabricbed import CHAIN, FabricBed, run_tests

from testbed import SKIPPED, are_installed, option_parser, wait_until

BED = None  # Set in main.
SECONDS_MAX = 60
MIDDLE, TO_H1, TO_H2 = "S2", 1, 2  # The switch between the other two, and its ports.


class Verbs(unittest.TestCase):
    def start_flood(self):
        """Writes from H2 to H1, which cross already. Returns both programs."""
        before = BED.bytes_sent(MIDDLE, TO_H1)
        server, command = BED.start_server("H1", "ib_write_bw", "-F", "-D", "30")
        client = BED.start("H2", *command)
        wait_until(lambda: BED.bytes_sent(MIDDLE, TO_H1) - before > 4_000_000, SECONDS_MAX, "data")
        return server, client

    def crosses(self, *argv, to_h1=0, to_h2=0):
        """Runs the server on H1 and the client on H2; at least so many bytes have to leave the middle switch in each
        direction."""
        before = [BED.bytes_sent(MIDDLE, port) for port in (TO_H1, TO_H2)]
        said = BED.run_pair("H1", "H2", *argv)
        after = [BED.bytes_sent(MIDDLE, port) for port in (TO_H1, TO_H2)]
        self.assertGreaterEqual(after[0] - before[0], to_h1, said)
        self.assertGreaterEqual(after[1] - before[1], to_h2, said)

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

    def test_a_static_rate_holds_packets_back(self):
        """That of a 1x SDR link, which carries 2 Gb/s. A machine that is busy is slower."""
        said = BED.run_pair("H1", "H2", "ib_write_bw", "-F", "-n", "200", "--report_gbits", "--rate_limit", "2.5",
                            "--rate_limit_type", "HW")
        average = re.search(r"^ *65536 +200 +\S+ +(\S+)", said, re.MULTILINE).group(1)
        self.assertLess(float(average), 2.1, said)

    def test_a_program_that_sleeps_is_woken(self):
        size, count = 4096, 500
        self.crosses("ib_send_bw", "-e", "-s", str(size), "-n", str(count), "-F", to_h1=size * count)
        self.crosses("ibv_rc_pingpong", "-e", "-c", "-n", str(count), to_h1=size * count, to_h2=size * count)

    def test_a_path_without_a_grh_takes_nothing_from_it(self):
        for path in ("auto", "wire"):
            for kind in ("rc", "uc", "ud", "received", "alternate"):
                for index in ("0", "1", "200", "255"):
                    with self.subTest((path, kind, index)):
                        BED.run("H1", "env", f"VERBATIM_PATH={path}", f"{BED.build}/bin/without_grh", kind, index)

    def test_what_is_made_and_destroyed_leaves_nothing(self):
        print(BED.run("H1", f"{BED.build}/bin/cycles", "300"))

    def test_programs_that_are_killed_leave_the_fabric_to_others(self):
        size, count = 65536, 500
        for number in range(6):
            pair = self.start_flood()
            self.assertEqual([program.poll() for program in pair], [None, None])
            BED.end(pair[number % 2])
            self.assertNotEqual(pair[1 - number % 2].wait(SECONDS_MAX), 0)
            self.assertEqual(BED.verbatim("fabric", "check"), "")
        self.crosses("ib_write_bw", "-s", str(size), "-n", str(count), "-F", to_h1=size * count)


def main():
    global BED
    options = option_parser(__doc__).parse_args()
    if not are_installed("opensm", "perfquery", "ibv_rc_pingpong", "ib_write_bw"):
        return SKIPPED
    with FabricBed(options) as BED:
        BED.up(CHAIN)
        BED.start_manager("H1")
        BED.wait_until_active("H1", "H2")
        run_tests()
    return 0


if __name__ == "__main__":
    sys.exit(main())
