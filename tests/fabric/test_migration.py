#!/usr/bin/env python3
"""Automatic path migration between two hosts of a fat tree whose ports have two LIDs each (LMC 1): one path by each of
two spines. Messages flow all the while, and none may be lost."""

import os
import signal
import sys
import unittest

from fabricbed import FabricBed, run_tests, wait_for_text

from testbed import SKIPPED, Failure, are_installed, option_parser, wait_until

OPTIONS = None  # Set in main.
SECONDS_MAX = 60
SENDER, RECEIVER = "H1", "H8"  # At the leaves L1 and L4, between which packets cross S1 or S2.
UPLINKS = {"S1": 3, "S2": 4}  # Ports of L1.
MIGRATED, REARM, ARMED = "0", "1", "2"  # enum ibv_mig_state.
PATH_MIGRATED, PATH_MIGRATION_ERROR = "6", "7"  # enum ibv_event_type.
RETRY_EXCEEDED = "12"  # enum ibv_wc_status.


class End:
    """A program of migration.cpp."""

    def __init__(self, bed, host, *argv):
        self.host = host
        self._program = bed.start_dialogue(host, f"{bed.build}/bin/migration", *argv)
        self.events = []
        self.failure = None
        self.numbers = self._next_line()

    def _next_line(self):
        line = self._program.stdout.readline()
        if not line:
            raise Failure(f"the program on {self.host} ended with status {self._program.wait()}")
        return line.split()

    def tell(self, *words):
        self._program.stdin.write(" ".join(map(str, words)) + "\n")

    def ask(self, *words):
        """What follows the first word of the answer."""
        self.tell(*words)
        while True:
            kind, *values = self._next_line()
            if kind == "event":
                self.events += values
            elif kind == "failed":
                self.failure, = values
            else:
                return values

    def count(self):
        return int(self.ask("count")[0])

    def state(self):
        return self.ask("state")[0]

    def peer_lid(self):
        return int(self.ask("state")[1])


class Migration(unittest.TestCase):
    def setUp(self):
        self.bed = FabricBed(OPTIONS)
        self.addCleanup(self.bed.__exit__, None, None, None)
        self.bed.up(self.bed.verbatim("fabric", "generate", "fat-tree", "--hosts", "8", "--switch-ports", "4"))
        self.manager, log = self.bed.start_manager("H2", "--lmc", "1")
        wait_for_text(log, "SUBNET UP")
        self.bed.wait_until_active(SENDER, RECEIVER)

    def lids_by_spine(self):
        """By spine, LIDs of receiver and sender, to each of which the other one's packets cross the spine. Of spines
        that have both."""
        found = {}
        bases = self.bed.lids()
        for spine in UPLINKS:
            lids = [bases[host] + bits for host, other in ((RECEIVER, SENDER), (SENDER, RECEIVER)) for bits in range(2)
                    if spine in self.bed.hops(other, host, bits)]
            if len(lids) == 2:
                found[spine] = lids
        return found

    def wait_for_both_spines(self):
        wait_until(lambda: len(self.lids_by_spine()) == 2, SECONDS_MAX, "a path by each spine")
        return self.lids_by_spine()

    def start(self, kind):
        """A connection whose messages cross the first spine."""
        self.lids = self.wait_for_both_spines()
        self.ends = [End(self.bed, RECEIVER, kind, "receive"), End(self.bed, SENDER, kind, "send")]
        for end, peer in zip(self.ends, reversed(self.ends)):
            end.tell(*self.path_of(end, "S1"), *peer.numbers)
        self.assert_crosses("S1")

    def path_of(self, end, spine):
        """Its LID and its peer's."""
        lids = self.lids[spine]
        return lids if end.host == RECEIVER else lids[::-1]

    def rearm(self, spine):
        for end in self.ends:
            end.ask("rearm", *self.path_of(end, spine))
        wait_until(lambda: [end.state() for end in self.ends] == [ARMED, ARMED], SECONDS_MAX, "armed ends")
        for end in self.ends:
            end.events.clear()

    def messages_sent(self, count):
        before = self.ends[1].count()
        wait_until(lambda: self.ends[1].count() > before + count, SECONDS_MAX, "messages")

    def packets(self):
        """By spine, the packets that the sender's leaf has sent to it and received from it."""
        return {spine: [self.bed.counter(name, "L1", port, "-x") for name in ("PortXmitPkts", "PortRcvPkts")]
                for spine, port in UPLINKS.items()}

    def assert_crosses(self, spine):
        """Messages cross it, and their acknowledgements. Management datagrams are far fewer."""
        self.messages_sent(100)  # What was on another path has arrived.
        before = self.packets()
        self.messages_sent(10_000)
        after = self.packets()
        for each, counts in before.items():
            grown = [now - then for now, then in zip(after[each], counts)]
            self.assertEqual([packets > 500 for packets in grown], [each == spine] * 2, f"{grown} packets to {each}")

    def wait_for_migration(self, spine):
        """Both ends have migrated to the path by the spine, and messages flow."""
        for end in self.ends:
            # Another thread of the program prints events: they may come after the state.
            wait_until(lambda end=end: end.state() == MIGRATED and PATH_MIGRATED in end.events, SECONDS_MAX,
                       f"migration of {end.host}")
            self.assertEqual(end.peer_lid(), self.path_of(end, spine)[1])
        self.assert_crosses(spine)
        self.assertEqual([end.failure for end in self.ends], [None, None])

    def check_by_request(self, kind):
        self.start(kind)
        self.rearm("S2")
        self.assert_crosses("S1")
        self.ends[1].ask("migrate")
        self.wait_for_migration("S2")
        self.rearm("S1")
        self.ends[0].ask("migrate")
        self.wait_for_migration("S1")

    def test_by_request(self):
        self.check_by_request("rc")

    def test_by_request_of_xrc(self):
        self.check_by_request("xrc")

    def test_a_cut_cable_and_back(self):
        self.start("rc")
        self.rearm("S2")
        # The manager would find another way for the same LIDs.
        self.manager.send_signal(signal.SIGSTOP)
        self.bed.verbatim("fabric", "link", "S1/1", "down")
        self.wait_for_migration("S2")
        self.bed.verbatim("fabric", "link", "S1/1", "up")
        self.manager.send_signal(signal.SIGCONT)
        self.lids = self.wait_for_both_spines()
        self.rearm("S1")
        self.ends[0].ask("migrate")
        self.wait_for_migration("S1")

    def test_to_a_path_that_the_peer_does_not_know(self):
        self.start("rc")
        receiver, sender = self.ends
        sender.ask("rearm", *self.path_of(sender, "S2"))
        receiver.ask("rearm", *self.path_of(receiver, "S1"))
        wait_until(lambda: [end.state() for end in self.ends] == [ARMED, ARMED], SECONDS_MAX, "armed ends")
        sender.ask("migrate")
        wait_until(lambda: receiver.state() == ARMED and PATH_MIGRATION_ERROR in receiver.events, SECONDS_MAX,
                   "an error of the migration")
        wait_until(lambda: sender.state() == MIGRATED and sender.failure, SECONDS_MAX, "a failed request")
        self.assertEqual(sender.failure, RETRY_EXCEEDED)


def main():
    global OPTIONS
    OPTIONS = option_parser(__doc__).parse_args()
    if not are_installed("opensm", "perfquery", "ibtracert"):
        return SKIPPED
    run_tests()
    return 0


if __name__ == "__main__":
    sys.exit(main())
