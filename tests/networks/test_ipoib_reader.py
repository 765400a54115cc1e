#!/usr/bin/env python3
"""What interfaces of IP over InfiniBand send and receive, read by a second decoder, which was written from the RFCs alone
(ipoib_reader.py): packets and connections' messages on a host's cable, in both modes. And it finds what is changed."""

import os
import shutil
import signal
import subprocess
import sys
import unittest

import ipoib_reader
import test_ipoib as base

from fabricbed import run_tests  # noqa: E402 (found by test_ipoib)
from testbed import SKIPPED, are_installed, option_parser, wait_until  # noqa: E402

ALWAYS = {"ARP announcement", "ARP request", "ARP reply", "advertisement", "solicitation", "to a group", "ICMP", "ICMPv6",
          "IGMP", "TCP", "UDP", "management class 0x3"}
CONNECTED = {"connected", "connection asked for", "connection accepted", "acknowledgement"}
UD_SEND = 0x64
# Places in a datagram's payload, and bits there: reserved bytes of the encapsulation, its type, the length of IP.
CHANGES = ((2, 1), (0, 0x40), (7, 1))


class IpoibReader(base.IpoibTest):
    def start_capture(self, path):
        capture = subprocess.Popen([f"{self.bed.build}/bin/verbatim", "fabric", "capture", "--link", "H1/1", path],
                                   env=self.bed.environment(), stderr=subprocess.PIPE, text=True)
        self.addCleanup(base.FabricBed.end, capture)
        wait_until(lambda: os.path.exists(path) and os.path.getsize(path) > 0, base.SECONDS_MAX, "the capture")
        return capture

    def use(self):
        """Something of all that there is."""
        for address in base.HOSTS["H2"]:
            self.ping("H1", address)
            self.ping("H1", address, "-s", "5000")
        for speaker, listener in (("H1", "H2"), ("H2", "H1")):
            self.expect_multicast(speaker, listener, 1000)
        for port, options in enumerate((("-n", "400K"), ("-n", "400K", "-R"), ("-u", "-n", "100K", "-l", "1000")), 5201):
            server = self.start_on("H2", "iperf3", "--server", "--one-off", "--port", str(port))
            wait_until(lambda: str(port) in self.on("H2", "ss", "-ltn"), base.SECONDS_MAX, "iperf3")
            self.on("H1", "iperf3", "-b", "20M", "--port", str(port), "-c", base.HOSTS["H2"][0], *options)
            self.assertEqual(server.wait(base.SECONDS_MAX), 0)

    @unittest.skipUnless(shutil.which("iperf3"), "iperf3 is not installed")
    def test_all_of_both_modes_is_as_the_rfcs_say(self):
        for mode, kinds in (((), ALWAYS), (base.CONNECTED, ALWAYS | CONNECTED)):
            path = f"{self.bed.folder}/cable{len(mode)}.pcapng"
            capture = self.start_capture(path)
            for host in base.HOSTS:
                self.up(host, *mode)
            self.use()
            capture.send_signal(signal.SIGINT)
            self.assertIn(" 0 lost", capture.communicate(timeout=base.SECONDS_MAX)[1])
            reader = ipoib_reader.Reader()
            reader.read(path)
            self.assertEqual(kinds - set(reader.seen), set(), reader.seen)
            self.assertFalse([kind for kind in reader.seen if kind.startswith("protocol")])
            for host in base.HOSTS:
                self.bed.verbatim("ipoib", "down", "--host", host)
        self.expect_changes_to_be_found(f"{self.bed.folder}/cable0.pcapng")

    def expect_changes_to_be_found(self, path):
        """A decoder that takes everything would be none."""
        packets = list(ipoib_reader.packets_of(path))
        tcp = next(number for number, data in enumerate(packets) if self.is_tcp(data))
        for at, flip in CHANGES:
            reader = ipoib_reader.Reader()
            for number, data in enumerate(packets):
                if number != tcp:
                    reader.on_packet(ipoib_reader.Packet(data))
                    continue
                changed = bytearray(data)
                changed[8 + 12 + 8 + at] ^= flip  # Behind LRH, BTH and DETH.
                with self.assertRaises(ipoib_reader.Wrong):
                    reader.on_packet(ipoib_reader.Packet(bytes(changed)))
                break

    @staticmethod
    def is_tcp(data):
        packet = ipoib_reader.Packet(data)
        return packet.opcode == UD_SEND and packet.dgid is None and packet.qp > 1 and packet.payload[4 + 9:4 + 10] == b"\x06"


def main():
    base.OPTIONS = option_parser(__doc__).parse_args()
    can_make = subprocess.run([*base.NAMESPACES, "sh", "-c", "ip tuntap add t0 mode tun"], check=False, capture_output=True)
    if not are_installed("opensm", "ip", "ping", "nsenter") or can_make.returncode != 0:
        print("needs opensm, ip, ping, and interfaces in a user's network namespace")
        return SKIPPED
    run_tests()
    return 0


if __name__ == "__main__":
    sys.exit(main())
