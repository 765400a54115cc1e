#!/usr/bin/env python3
"""The programs of examples/, which are written for cards, on three hosts of a fat tree: in C by LID, in C++ and by
rdma_cm by the hosts' addresses. Whole applications: a store, RPC, a barrier, files."""

import os
import sys

from fabricbed import FabricBed, HostsTestbed

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples"))

from test_examples import CASES, Stage  # noqa: E402 (found by the line above)
from testbed import SKIPPED, are_installed, option_parser  # noqa: E402

HOSTS = {"a": "H1", "b": "H8", "c": "H4"}  # Each at another leaf.


def main():
    options = option_parser(__doc__).parse_args()
    if not are_installed("opensm"):
        return SKIPPED
    with FabricBed(options) as bed:
        bed.up(bed.verbatim("fabric", "generate", "fat-tree", "--hosts", "8", "--switch-ports", "4"), "--manager",
               "opensm")
        bed.wait_until_active(*HOSTS.values())
        for name, (run, _) in CASES.items():
            with HostsTestbed(options, bed, HOSTS) as testbed:
                run(Stage(testbed, name), "infiniband")
            print(f"passed: {name}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
