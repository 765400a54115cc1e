#!/usr/bin/env python3
"""`verbatim capture --host`, `verbatim fabric capture` and faults of a host's packets: tshark decodes all packets, and
their CRCs are computed again (tests/wire_judge)."""

import collections
import signal
import subprocess
import sys
import unittest

from fabricbed import CHAIN, FabricBed, run_tests, text_of, wait_for_text

from testbed import SKIPPED, are_installed, option_parser
from test_capture import judged_opcodes

BED = None  # Set in main.
SECONDS_MAX = 60
RC_WRITE_FIRST, RC_WRITE_ONLY, RC_ACK, RC_ATOMIC_ACK, RC_FETCH_ADD, UD_SEND = 0x06, 0x0A, 0x11, 0x12, 0x14, 0x64


def verbatim(*words):
    return subprocess.run([f"{BED.build}/bin/verbatim", *words], env=BED.environment(), check=False, text=True,
                          capture_output=True, timeout=SECONDS_MAX)


def tshark(path, which, *words):
    done = subprocess.run(["tshark", "-r", path, "-Y", which, *words], check=True, text=True, capture_output=True)
    return done.stdout.splitlines()


class Captures(unittest.TestCase):
    def captured(self, *argv):
        """Runs the server on H1, the client on H2 under a capture. Returns the file and the opcodes in it."""
        server, command = BED.start_server("H1", *argv)
        path = f"{BED.folder}/{argv[0]}.pcapng"
        done = verbatim("capture", "-w", path, "--host", "H2", "--", *command)
        self.assertEqual((done.returncode, server.wait(SECONDS_MAX)), (0, 0), done)
        self.assertNotIn("lost", done.stderr)
        return path, judged_opcodes(path)

    def test_connected_datagram_and_atomic(self):
        path, opcodes = self.captured("ib_write_bw", "-F", "-n", "100", "-s", "20000")
        self.assertLessEqual({RC_WRITE_FIRST, RC_ACK}, opcodes)
        for direction in (1, 2):
            self.assertTrue(tshark(path, f"frame.packet_flags_direction == {direction}"))
        _, opcodes = self.captured("ib_atomic_bw", "-F", "-n", "50")
        self.assertLessEqual({RC_FETCH_ADD, RC_ATOMIC_ACK}, opcodes)
        path, opcodes = self.captured("ib_send_lat", "-F", "-n", "50", "-c", "UD", "-s", "100")
        self.assertIn(UD_SEND, opcodes)
        self.assertFalse(tshark(path, "infiniband.grh"))

    def test_packets_with_a_grh(self):
        path, opcodes = self.captured("ib_write_lat", "-F", "-n", "50", "-s", "200", "-x", "0")
        self.assertIn(RC_WRITE_ONLY, opcodes)
        self.assertEqual(len(tshark(path, "infiniband.grh")), len(tshark(path, "infiniband.lrh")))


class Cables(unittest.TestCase):
    """`verbatim fabric capture`."""

    def start(self, *words):
        """Returns the capture, its file and its log."""
        path = f"{BED.folder}/cables.pcapng"
        log_path = f"{BED.folder}/cables.log"
        with open(log_path, "wb") as log:
            capture = subprocess.Popen([f"{BED.build}/bin/verbatim", "fabric", "capture", path, *words],
                                       env=BED.environment(), stdout=log, stderr=log)
        wait_for_text(log_path, "Ctrl-C ends it")
        return capture, path, log_path

    def captured(self, *words, run, may_lose=False):
        """What crosses while `run()` runs. The tap holds some 2,000 packets: of more, some may be lost."""
        capture, path, log_path = self.start(*words)
        run()
        capture.send_signal(signal.SIGINT)
        self.assertEqual(capture.wait(SECONDS_MAX), 0, text_of(log_path))
        if not may_lose:
            self.assertIn(", 0 lost, in", text_of(log_path))
        return path

    def test_management_datagrams(self):
        far = str(BED.lids()["S3"])
        path = self.captured(run=lambda: BED.run("H1", "perfquery", "-x", far, "1") and BED.run("H1", "ibnetdiscover"))
        judged_opcodes(path)
        for which, least in (("infiniband.mad.mgmtclass == 0x81", 20), ("infiniband.mad.mgmtclass == 4", 2),
                             ("infiniband.lrh.vl == 15", 20), ("infiniband.bth.destqp == 0", 20)):
            self.assertGreaterEqual(len(tshark(path, which)), least, which)
        names = {line.split("\t")[0] for line in tshark(path, "infiniband.lrh", "-T", "fields", "-e", "frame.interface_name")}
        self.assertLessEqual({"H1/1", "S1/1", "S1/2", "S2/1"}, names)

    def test_data_of_one_cable(self):
        def write():
            BED.run_pair("H1", "H2", "ib_write_bw", "-F", "-n", "20", "-s", "20000")
        path = self.captured("--link", "S2/1", run=write)
        self.assertLessEqual({RC_WRITE_FIRST, RC_ACK}, judged_opcodes(path))
        last = tshark(path, "infiniband.bth.opcode == 8", "-T", "fields", "-e", "frame.interface_name")
        self.assertEqual(last, ["S2/1"] * 20)
        # The capture of that cable has ended.
        self.assertFalse(tshark(self.captured("--link", "S1/1", run=lambda: None), "infiniband.bth.opcode == 8"))

    def test_damaged_packets(self):
        def write():
            BED.verbatim("fabric", "link", "S2/1", "errors", "1e-6")
            BED.run_pair("H1", "H2", "ib_write_bw", "-F", "-n", "200", "-s", "20000", "-u", "10")
            BED.verbatim("fabric", "link", "S2/1", "errors", "0")
        path = self.captured("--link", "S2/1", run=write, may_lose=True)
        self.assertTrue(tshark(path, "frame.packet_flags_crc_error == 1"))

    def test_it_ends_by_time_or_with_the_fabric(self):
        done = verbatim("fabric", "capture", f"{BED.folder}/cables.pcapng", "--for", "50ms")
        self.assertEqual((done.returncode, done.stdout), (0, ""), done)
        self.assertIn(", 0 lost, in", done.stderr)
        BED.up(CHAIN, "--name", "other")
        capture, _, log_path = self.start("--name", "other")
        BED.verbatim("fabric", "down", "--name", "other")
        self.assertEqual(capture.wait(SECONDS_MAX), 1, text_of(log_path))
        self.assertIn("the fabric has ended", text_of(log_path))

    def test_refusals(self):
        for words, text in ((["--link", "S9/1"], "no node 'S9'"), (["--link", "S1"], "no port such as"),
                            (["--name", "none"], "no fabric"), (["--for", "soon"], "no time")):
            done = verbatim("fabric", "capture", f"{BED.folder}/x.pcapng", *words)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(text, done.stderr)


class Faults(unittest.TestCase):
    def test_what_is_lost_or_damaged_is_sent_again(self):
        server, command = BED.start_server("H1", "ib_write_bw", "-F", "-n", "300", "-s", "20000")
        path = f"{BED.folder}/faults.pcapng"
        faulty = (f"{BED.build}/bin/verbatim", "run", "--host", "H2", "--fault", "loss=1%,corrupt=1%,seed=3", "--", *command)
        done = verbatim("capture", "-w", path, "--host", "H2", "--", *faulty)
        self.assertEqual((done.returncode, server.wait(SECONDS_MAX)), (0, 0), done)
        self.assertIn("between programs of one host there are no packets to hit", done.stderr)
        comments = collections.Counter(tshark(path, "frame.comment", "-T", "fields", "-e", "frame.comment"))
        self.assertEqual(set(comments), {"fault: lost, not on the wire", "fault: corrupted"})
        self.assertIn(f"{comments.total()} of them hit by faults", done.stderr)
        damaged = tshark(path, "frame.packet_flags_crc_error == 1")
        self.assertEqual(len(damaged), comments["fault: corrupted"])

    def test_what_the_link_cannot_do_is_refused(self):
        for fault in ("reorder=1%", "duplicate=1%", "delay=1ms"):
            done = verbatim("run", "--host", "H2", "--fault", fault, "--", "true")
            self.assertEqual(done.returncode, 2)
            self.assertIn("keep packets in order", done.stderr)


def main():
    global BED
    options = option_parser(__doc__).parse_args()
    if not are_installed("opensm", "tshark", "ib_write_bw"):
        return SKIPPED
    with FabricBed(options) as BED:
        BED.up(CHAIN, "--manager", "opensm")
        BED.wait_until_active("H1", "H2")
        run_tests()
    return 0


if __name__ == "__main__":
    sys.exit(main())
