#!/usr/bin/env python3
"""Two nodes in two network namespaces, joined by a veth pair: as two hosts with an Ethernet cable."""

import sys

from testbed import Testbed, option_parser
from namespaces import enter_user_namespace, joined_by_veth

SECONDS_MAX = 60

RUNS = (
    "ibv_rc_pingpong -g 1 -c",
    "ibv_rc_pingpong -g 0 -c -m 1024 -s 100000 -n 100",
    "ibv_uc_pingpong -g 1 -c",
    "ibv_ud_pingpong -g 1 -c -s 1024",
    "ib_send_bw -F -n 200",
    "ib_write_bw -F -n 200 -m 1024",
    "ib_read_bw -F -n 200 -e",
    "ib_send_lat -F -n 500",
    "ib_atomic_bw -F -n 500",
)


def main():
    options = option_parser(__doc__).parse_args()
    enter_user_namespace()
    with joined_by_veth() as (peer, address_a, address_b):
        with Testbed(options, namespace_pids={"b": peer.pid}) as testbed:
            testbed.set_addresses("a", address_a)
            testbed.set_addresses("b", address_b)
            for run in RUNS:
                testbed.run_pair(run, SECONDS_MAX)


if __name__ == "__main__":
    sys.exit(main())
