#!/usr/bin/env python3
"""RDS between two hosts of a fabric: paths come from the subnet administrator, and the bytes cross three switches."""

import os
import sys

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(TESTS, "programs"), os.path.join(TESTS, "fabric")]

from fabricbed import CHAIN, FabricBed, HostsTestbed  # noqa: E402
from test_rds import RdsNodes, messages, order, sockets  # noqa: E402
from testbed import SKIPPED, Failure, are_installed, option_parser  # noqa: E402

HOSTS = {"a": "H1", "b": "H2"}
MIDDLE, TO_H1 = "S2", 1  # The switch between the other two, and its port.
BYTES = 20_000_000


class RdsHostsTestbed(RdsNodes, HostsTestbed):
    pass


def main():
    options = option_parser(__doc__).parse_args()
    if not are_installed("opensm", "perfquery"):
        return SKIPPED
    with FabricBed(options) as bed:
        bed.up(CHAIN)
        bed.start_manager("H1")
        bed.wait_until_active(*HOSTS.values())
        with RdsHostsTestbed(options, bed, HOSTS) as testbed:
            before = bed.bytes_sent(MIDDLE, TO_H1)
            for part in (messages, order, sockets):
                part(testbed)
                print(f"passed: {part.__name__}", flush=True)
            if bed.bytes_sent(MIDDLE, TO_H1) - before < BYTES:
                raise Failure("the messages have not crossed the middle switch")
    return 0


if __name__ == "__main__":
    sys.exit(main())
