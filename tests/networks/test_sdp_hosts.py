#!/usr/bin/env python3
"""Unmodified programs by SDP between two hosts of a fabric: paths come from the subnet administrator, and the bytes cross
three switches."""

import sys

from sdpbed import ONLY_SDP, SdpHostsTestbed
from test_sdp import run_iperf3, run_programs

from fabricbed import CHAIN, FabricBed  # noqa: E402
from testbed import SKIPPED, Failure, are_installed, option_parser  # noqa: E402

HOSTS = {"a": "H1", "b": "H2"}
MIDDLE, TO_H1 = "S2", 1  # The switch between the other two, and its port.
BYTES = 20_000_000


def main():
    options = option_parser(__doc__).parse_args()
    if not are_installed("iperf3", "opensm", "perfquery"):
        return SKIPPED
    with FabricBed(options) as bed:
        bed.up(CHAIN)
        bed.start_manager("H1")
        bed.wait_until_active(*HOSTS.values())
        with SdpHostsTestbed(options, bed, HOSTS) as testbed:
            testbed.set_rules(ONLY_SDP)
            before = bed.bytes_sent(MIDDLE, TO_H1)
            run_iperf3(testbed, "-P", "8", "-n", str(BYTES))
            sent = bed.bytes_sent(MIDDLE, TO_H1) - before
            if sent < BYTES:
                raise Failure(f"only {sent} bytes have crossed the middle switch")
            run_programs(testbed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
