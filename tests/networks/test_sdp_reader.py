#!/usr/bin/env python3
"""What both ends of SDP send, read by a second decoder, which was written from the annex alone (sdp_reader.py): captures of
iperf3, nginx, urgent data and half closes between two nodes. And it finds what is changed."""

import contextlib
import os
import struct
import subprocess
import sys

import sdp_reader
from captured import packets_of
from sdpbed import ONLY_SDP, SdpTestbed
from test_sdp import ENDS, PYTHON, run_nginx, run_pair

from namespaces import enter_user_namespace  # noqa: E402
from test_capture import Capture  # noqa: E402
from testbed import SKIPPED, Failure, are_installed, option_parser, wait_until  # noqa: E402

SECONDS = 20
LENDING = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lending.py")
# A message's first bytes, and what is changed there: kind, flags, buffers, length, MSeq, MSeqAck.
CHANGES = ((0, 0x10), (1, 0x08), (2, 0x80), (7, 1), (11, 1), (14, 1))


def read(path, *kinds):
    reader = sdp_reader.Reader()
    reader.read(path)
    missing = set(kinds) - set(reader.seen)
    if missing or not reader.connections:
        raise Failure(f"{path}: no {missing} among {dict(reader.seen)}")
    return reader


def seen_so_far(path):
    """dumpcap writes late, and perhaps half a packet."""
    reader = sdp_reader.Reader()
    with contextlib.suppress(sdp_reader.Wrong, struct.error, IndexError):
        reader.read(path)
    return set(reader.seen)


def captured(testbed, what, run, *kinds):
    kinds = {"Hello", "HelloAck", "Data", "DisConn", "disconnected by the CM", *kinds}
    capture = Capture(testbed.folder)
    run()
    with contextlib.suppress(Failure):
        wait_until(lambda: kinds <= seen_so_far(capture.path), SECONDS, "dumpcap")
    capture.stop()
    reader = read(capture.path, *kinds)
    print(f"{what}: {len(reader.connections)} connections, {dict(reader.seen)}", flush=True)
    os.rename(capture.path, f"{testbed.folder}/{what}.pcap")
    return reader


def expect_changes_to_be_found(path):
    """A decoder that takes everything would be none."""
    packets = list(packets_of(path))
    reader = sdp_reader.Reader()
    reader.read(path)
    wanted = next(number for number, packet in enumerate(packets) if packet.opcode in (0, 4) and packet.queue_pair > 1 and
                  packet.body[:1] == b"\xff" and struct.unpack_from(">I", packet.body, 4)[0] > sdp_reader.BSDH)
    for at, flip in CHANGES:
        reader = sdp_reader.Reader()
        for packet in packets[:wanted]:
            reader.on_packet(packet)
        changed = bytearray(packets[wanted].body)
        changed[at] ^= flip
        kept, packets[wanted].body = packets[wanted].body, bytes(changed)
        try:
            for packet in packets[wanted:]:
                reader.on_packet(packet)
            raise Failure(f"byte {at} may be anything")
        except sdp_reader.Wrong:
            pass
        packets[wanted].body = kept


def main():
    options = option_parser(__doc__).parse_args()
    if not are_installed("dumpcap", "iperf3"):
        return SKIPPED
    enter_user_namespace()
    # So that a capture shows packets as on a cable, not datagrams before segmentation.
    subprocess.run(["ethtool", "-K", "lo", "tx-udp-segmentation", "off"], check=True)
    with SdpTestbed(options) as testbed:
        testbed.set_rules(ONLY_SDP)
        captured(testbed, "iperf3", lambda: run_pair(testbed, ["iperf3", "-s", "-1", "-p", "{port}"],
                                                     ["iperf3", "-c", "{a}", "-p", "{port}", "-n", "8M", "-P", "2"]), "credits")
        captured(testbed, "ends", lambda: run_pair(testbed, [PYTHON, ENDS, "server", "{a}", "{port}"],
                                                   [PYTHON, ENDS, "client", "{a}", "{port}"]), "urgent byte", "AbortConn")
        testbed.set_rules(ONLY_SDP, SDP_ZCOPY_THRESH="65536", LENDING_TIMES="5")
        captured(testbed, "lending", lambda: run_pair(testbed, [PYTHON, LENDING, "server", "{a}", "{port}"],
                                                      [PYTHON, LENDING, "client", "{a}", "{port}"]), "SrcAvail", "READ",
                 "RdmaRdCompl", "SendSm")
        testbed.set_rules(ONLY_SDP)
        if are_installed("nginx", "ab"):
            captured(testbed, "nginx", lambda: run_nginx(testbed, 200))  # On a busy machine dumpcap loses more.
        expect_changes_to_be_found(f"{testbed.folder}/iperf3.pcap")
    return 0


if __name__ == "__main__":
    sys.exit(main())
