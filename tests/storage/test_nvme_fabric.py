#!/usr/bin/env python3
"""`verbatim target` on a host of an InfiniBand fabric, its host of NVMe over Fabrics across two switches."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fabric"))

from fabricbed import TRIANGLE, FabricBed, HostsTestbed
from test_nvme_target import Bench, admits_whom_it_names, keeps_what_was_written, run_all, serves_again
from testbed import SKIPPED, are_installed, option_parser

HOSTS = {"a": "H1", "b": "H4"}


def main():
    options = option_parser(__doc__).parse_args()
    if not are_installed("opensm"):
        return SKIPPED
    with FabricBed(options) as bed:
        bed.up(TRIANGLE, "--manager", "opensm")
        bed.wait_until_active(*HOSTS.values())
        with HostsTestbed(options, bed, HOSTS) as testbed:
            run_all(Bench(testbed), (admits_whom_it_names, keeps_what_was_written, serves_again))
    return 0


if __name__ == "__main__":
    sys.exit(main())
