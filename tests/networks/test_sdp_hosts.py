#!/usr/bin/env python3
"""Unmodified programs by SDP between two hosts of a fabric: paths come from the subnet administrator, and the bytes cross
three switches."""

import sys

from sdpbed import ONLY_SDP, SdpHostsTestbed
from test_sdp import PAGE_BYTES, run_iperf3, run_nginx, run_programs

from fabricbed import CHAIN, FabricBed  # noqa: E402
from testbed import SKIPPED, Failure, are_installed, option_parser  # noqa: E402

HOSTS = {"a": "H1", "b": "H2"}
MIDDLE, TO_H1, TO_H2 = "S2", 1, 2  # The switch between the other two, and its ports.
BYTES = 20_000_000


def expect_crossing(bed, wanted, run):
    """What it carries by SDP crosses the switch in the middle, not the machine's own TCP."""
    before = bed.bytes_sent(MIDDLE, TO_H1), bed.bytes_sent(MIDDLE, TO_H2)
    run()
    sent = max(bed.bytes_sent(MIDDLE, TO_H1) - before[0], bed.bytes_sent(MIDDLE, TO_H2) - before[1])
    if sent < wanted:
        raise Failure(f"only {sent} bytes have crossed the middle switch")


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
            expect_crossing(bed, BYTES, lambda: run_iperf3(testbed, "-P", "8", "-n", str(BYTES)))
            run_programs(testbed)
            if are_installed("nginx", "ab"):
                expect_crossing(bed, 1000 * PAGE_BYTES, lambda: run_nginx(testbed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
