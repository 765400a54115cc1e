#!/usr/bin/env python3
"""Unmodified programs that wait by epoll, on two hosts of a fabric, under librspreload."""

import os
import sys

from fabricbed import FabricBed, HostsTestbed

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))

import test_epoll  # noqa: E402 (found by the line above)
from testbed import SKIPPED, are_installed, option_parser  # noqa: E402

HOSTS = {"a": "H1", "b": "H4"}


def main():
    options = option_parser(__doc__).parse_args()
    if not are_installed("opensm"):
        return SKIPPED
    with FabricBed(options) as bed:
        bed.up(bed.verbatim("fabric", "generate", "fat-tree", "--hosts", "4", "--switch-ports", "4"), "--manager", "opensm")
        bed.wait_until_active(*HOSTS.values())
        with HostsTestbed(options, bed, HOSTS) as testbed:
            test_epoll.run_all(testbed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
