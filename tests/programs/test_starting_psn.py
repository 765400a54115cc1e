#!/usr/bin/env python3
"""The starting PSN of a REQ or REP is that with which the other side begins to send (IBA 12.7.31). Two
of our nodes agree whichever way it is, so the packets are looked at."""

import subprocess
import sys

from testbed import Failure, Testbed, are_installed, option_parser, wait_until, SKIPPED
from namespaces import enter_user_namespace
from test_capture import SECONDS_MAX, Capture

FIELDS = ("infiniband.cm.req.localqpn", "infiniband.cm.req.startpsn",
          "infiniband.cm.rep.localqpn", "infiniband.cm.rep.startpsn",
          "infiniband.bth.destqp", "infiniband.bth.psn", "infiniband.bth.opcode")
READ_REQUEST = 0x0C  # The last requests of rping; responses follow.


def packets(path):
    """Returns each packet's fields as numbers; None for a missing one."""
    command = ["tshark", "-r", path, "-T", "fields", *(word for field in FIELDS for word in ("-e", field))]
    rows = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    return [[int(value, 0) if value else None for value in row.split("\t")] for row in rows]


def check(path):
    """Returns how many queue pairs were offered; checks that the first request to each has the offered PSN."""
    asked, first = {}, {}
    for req_qpn, req_psn, rep_qpn, rep_psn, destination, psn, opcode in packets(path):
        for qpn, start in ((req_qpn, req_psn), (rep_qpn, rep_psn)):
            if qpn is not None:
                asked[qpn] = start
        if opcode is not None and opcode <= READ_REQUEST:
            first.setdefault(destination, psn)
    for qpn, start in asked.items():
        if first.get(qpn) != start:
            raise Failure(f"queue pair 0x{qpn:x} asked for PSN {start}, the first request to it has {first.get(qpn)}")
    return len(asked)


def main():
    options = option_parser(__doc__).parse_args()
    if not are_installed("tshark", "dumpcap", "rping"):
        return SKIPPED
    enter_user_namespace()
    with Testbed(options) as testbed:
        capture = Capture(testbed.folder)
        server = testbed.start("a", ["rping", "-s", "-C", "3"])
        wait_until(lambda: testbed.bound_ports("a"), SECONDS_MAX, "rping to listen")
        testbed.start("b", ["rping", "-c", "-C", "3", "-a", testbed.address("a")]).expect_success(SECONDS_MAX)
        server.expect_success(SECONDS_MAX)
        capture.stop()
        if check(capture.path) != 2:
            raise Failure("no REQ, or no REP")
    return 0


if __name__ == "__main__":
    sys.exit(main())
