#!/usr/bin/env python3
"""`verbatim nfs` between two hosts of a fabric: what is read and written crosses three switches, also when one packet in
a hundred is lost."""

import os
import sys

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(TESTS, "programs"), os.path.join(TESTS, "fabric")]

from fabricbed import CHAIN, FabricBed, HostsTestbed  # noqa: E402
from test_nfs import BYTES, COPIES, Bench, run_parts, serves_again_after_a_gateway_was_killed  # noqa: E402
from testbed import SKIPPED, Failure, are_installed, option_parser  # noqa: E402

HOSTS = {"a": "H1", "b": "H2"}
MIDDLE, TO_H2 = "S2", 2  # The switch between the other two, and its port.


def main():
    options = option_parser(__doc__).parse_args()
    if not are_installed("opensm", "perfquery", "ganesha.nfsd", "nfs-ls", "nfs-cat", "nfs-cp"):
        return SKIPPED
    with FabricBed(options) as bed:
        bed.up(CHAIN)
        bed.start_manager("H1")
        bed.wait_until_active(*HOSTS.values())
        for fault, parts in (("", (*COPIES, serves_again_after_a_gateway_was_killed)), ("loss=1%", COPIES)):
            with HostsTestbed(options, bed, HOSTS) as testbed:
                before = bed.bytes_sent(MIDDLE, TO_H2)
                run_parts(Bench(testbed, VERBATIM_FAULT=fault), parts)
                if bed.bytes_sent(MIDDLE, TO_H2) - before < BYTES:
                    raise Failure("what was read has not crossed the middle switch")
    return 0


if __name__ == "__main__":
    sys.exit(main())
