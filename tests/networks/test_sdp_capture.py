#!/usr/bin/env python3
"""tshark decodes connections of SDP: each message has its kind, its length and the next MSeq. tshark calls a Data message
without data malformed, which the annex has for credits alone; nothing else is."""

import collections
import subprocess
import sys

from sdpbed import ONLY_SDP, SdpTestbed
from test_sdp import ENDS, PYTHON, run_pair

from namespaces import enter_user_namespace  # noqa: E402
from test_capture import Capture  # noqa: E402
from testbed import SKIPPED, Failure, are_installed, option_parser  # noqa: E402

FIELDS = ("infiniband.bth.destqp", "infiniband.bth.opcode", "infiniband_sdp.bsdh.mid", "infiniband_sdp.bsdh.len",
          "infiniband_sdp.bsdh.mseq", "frame.len", "_ws.malformed")
SEND_FIRST, SEND_ONLY = 0x00, 0x04
HELLO_ACK, DISCONNECT, ABORT, DATA = 0x01, 0x02, 0x03, 0xFF
HEADERS = 14 + 20 + 8 + 12  # Ethernet, IPv4, UDP, BTH.
BSDH, ICRC = 16, 4


def packets(path):
    command = ["tshark", "-r", path, "-T", "fields", *(word for field in FIELDS for word in ("-e", field))]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    for line in done.stdout.splitlines():
        yield [value.split(",")[0] for value in line.split("\t")]


def judge(path):
    """Returns the kinds of messages that were seen."""
    kinds = collections.Counter()
    sequences = collections.defaultdict(int)
    for pair, opcode, kind, length, sequence, size, malformed in packets(path):
        if not kind:
            if malformed:
                raise Failure("a packet besides SDP's is malformed")
            continue
        kind, length = int(kind, 16), int(length)
        if kind == HELLO_ACK:
            kinds[kind] += 1
        if not pair or int(opcode) not in (SEND_FIRST, SEND_ONLY) or int(pair, 16) == 1:
            continue  # CM's, or a message's later packets, which tshark decodes as if they were messages.
        kinds[kind] += 1
        sequences[pair] += 1
        if int(sequence, 16) != sequences[pair]:
            continue  # The packet was sent again, or dumpcap has lost one: judged by the queue pairs.
        if int(opcode) == SEND_ONLY and int(size) != HEADERS + (length + 3) // 4 * 4 + ICRC:
            raise Failure(f"a message of kind {kind:#x} says {length} bytes in a packet of {size}")
        if malformed and (kind, length) != (DATA, BSDH):
            raise Failure(f"a message of kind {kind:#x} with {length} bytes is malformed")
    return kinds


def main():
    options = option_parser(__doc__).parse_args()
    if not are_installed("tshark", "dumpcap"):
        return SKIPPED
    enter_user_namespace()
    # So that a capture shows packets as on a cable, not datagrams before segmentation.
    subprocess.run(["ethtool", "-K", "lo", "tx-udp-segmentation", "off"], check=True)
    with SdpTestbed(options) as testbed:
        testbed.set_rules(ONLY_SDP)
        capture = Capture(testbed.folder)
        run_pair(testbed, [PYTHON, ENDS, "server", "{a}", "{port}"], [PYTHON, ENDS, "client", "{a}", "{port}"])
        capture.stop()
        kinds = judge(capture.path)
    if not {HELLO_ACK, DISCONNECT, DATA} <= set(kinds) or set(kinds) - {HELLO_ACK, DISCONNECT, ABORT, DATA}:
        raise Failure(f"messages: {dict(kinds)}")
    print(f"messages: {dict(kinds)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
