#!/usr/bin/python3
"""Every opcode, as our encoder writes it, before tshark and scapy; and damaged captures before the judge,
which must find the damage. Usage: judge_test.py EMITTER"""

import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

import judge
import roce

EMITTER = None
OPCODES = 37  # 23 of RC, 12 of UC, 2 of UD.
# RoCE v1: Ethernet header, GRH, BTH of a SEND with one byte, payload and padding, ICRC.
FRAME = bytes.fromhex("020000000002" "020000000001" "8915"
                      "6123456700141b4000000000000000000000ffff0a00000100000000000000000000ffff0a000002"
                      "0470ffff0000001180abcdef4100000050d32396")
# InfiniBand: an RC WRITE from LRH to VCRC, the specification's example of both CRCs (IBA 7.8.1, 7.8.2).
PACKET = bytes.fromhex("7012375c000e17d2" "0a2024870087b1b3000dec2a"
                       "01710a1c015d400238f27a050000000e" "bb884d85fd5cfba4728bc0690ed40000" "9625b75a" "45fa")
ETHERNET, ERF = 1, 197
FILE_HEADER_BYTES = 24
RECORD_HEADER_BYTES = 16


class Judge(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.capture = pathlib.Path(folder.name) / "packets.pcap"
        self.meant = pathlib.Path(folder.name) / "packets.json"
        subprocess.run([EMITTER, self.capture, self.meant], check=True)

    def records(self):
        """Returns offset and size of each packet's bytes in the file."""
        data = self.capture.read_bytes()
        at = FILE_HEADER_BYTES
        while at < len(data):
            size = struct.unpack_from("<I", data, at + 8)[0]
            yield at + RECORD_HEADER_BYTES, size
            at += RECORD_HEADER_BYTES + size

    def damage(self, at, value):
        data = bytearray(self.capture.read_bytes())
        self.assertNotEqual(data[at], value)
        data[at] = value
        self.capture.write_bytes(data)

    def faults(self):
        return judge.judge(str(self.capture))[0]

    def test_every_opcode_is_decoded_as_it_was_meant(self):
        faults, counts, fields, by_scapy = judge.judge(str(self.capture))
        self.assertEqual(faults, [])
        self.assertEqual(len(counts), OPCODES)
        self.assertEqual(set(counts.values()), {2})
        self.assertEqual(by_scapy, OPCODES)  # Those over IPv4.
        meant = json.loads(self.meant.read_text(encoding="utf-8"))
        self.assertEqual(list(judge.unexpected(fields, meant)), [])

    def test_a_wrong_field_is_found(self):
        fields = judge.judge(str(self.capture))[2]
        meant = json.loads(self.meant.read_text(encoding="utf-8"))
        meant[5]["bth.psn"] += 1
        del meant[6]["reth.va"]
        self.assertEqual(len(list(judge.unexpected(fields, meant))), 2)

    def test_a_wrong_icrc_is_found_by_both(self):
        at, size = next(self.records())
        self.damage(at + size - 1, 0)
        faults = self.faults()
        self.assertEqual(len(faults), 2, faults)
        self.assertIn("right is", faults[0])
        self.assertIn("scapy's is", faults[1])

    def test_a_changed_payload_over_ipv6_is_found(self):
        at, size = list(self.records())[OPCODES]
        self.damage(at + size - 10, 0xEE)
        self.assertEqual(len(self.faults()), 1)

    def test_an_unknown_opcode_is_found(self):
        at, _ = next(self.records())
        self.damage(at + 28, 0x15)
        self.assertTrue(any("opcode" in fault for fault in self.faults()), self.faults())

    def frame_faults(self, frame, link_type=ETHERNET):
        header = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 0xFFFF, link_type)
        record = struct.pack("<IIII", 0, 0, len(frame), len(frame))
        self.capture.write_bytes(header + record + frame)
        return self.faults()

    def test_frames_of_version_1_are_judged(self):
        self.assertEqual(self.frame_faults(FRAME), [])
        for at in (30, len(FRAME) - 6, len(FRAME) - 1):  # The GRH's source, the payload, the ICRC.
            damaged = FRAME[:at] + bytes([FRAME[at] ^ 1]) + FRAME[at + 1:]
            self.assertEqual(len(self.frame_faults(damaged)), 1, at)

    def infiniband_faults(self, packet):
        """In a record of ERF type 21, of varying length."""
        record = struct.pack("!QBBHHH", 1 << 32, 21, 4, 16 + len(packet), 0, len(packet)) + packet
        return self.frame_faults(record, ERF)

    def test_packets_of_infiniband_are_judged(self):
        self.assertEqual(self.infiniband_faults(PACKET), [])
        # The VCRC covers everything: the lane, the payload, and the VCRC itself.
        for at in (0, len(PACKET) - 10, len(PACKET) - 1):
            damaged = PACKET[:at] + bytes([PACKET[at] ^ 1]) + PACKET[at + 1:]
            self.assertIn("has VCRC", " ".join(self.infiniband_faults(damaged)), at)
        # With a VCRC that is right again, the ICRC finds what no switch may change.
        body = bytearray(PACKET[:-roce.VCRC_BYTES])
        body[-10] ^= 1
        (fault,) = self.infiniband_faults(body + roce.vcrc(body))
        self.assertIn("has ICRC", fault)
        self.assertIn("not captured whole", " ".join(self.infiniband_faults(PACKET[:-4])))
        # Switches may change the lane.
        body = bytes([0x10]) + PACKET[1:-roce.VCRC_BYTES]
        self.assertEqual(self.infiniband_faults(body + roce.vcrc(body)), [])

    def test_a_capture_without_a_packet_is_no_success(self):
        self.capture.write_bytes(self.capture.read_bytes()[:FILE_HEADER_BYTES])
        self.assertEqual(self.faults(), ["no packet of RoCE or InfiniBand"])


if __name__ == "__main__":
    EMITTER = sys.argv.pop(1)
    unittest.main()
