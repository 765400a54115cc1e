#!/usr/bin/env python3
"""Two nodes in two network namespaces, joined by a veth pair: as two hosts with an Ethernet cable."""

import subprocess
import sys

from lab import Lab, option_parser
from namespaces import Namespace, enter_user_namespace, wait_for_link

ADDRESS_A = "10.77.0.1"
ADDRESS_B = "10.77.0.2"
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
    peer = Namespace()
    try:
        subprocess.run(["ip", "link", "add", "veth-a", "type", "veth", "peer", "name", "veth-b",
                        "netns", str(peer.pid)], check=True)
        for command in (f"ip address add {ADDRESS_A}/24 dev veth-a", "ip link set veth-a up"):
            subprocess.run(command.split(), check=True)
        for command in (f"ip address add {ADDRESS_B}/24 dev veth-b", "ip link set veth-b up",
                        "ip link set lo up"):
            peer.run(*command.split())
        wait_for_link("veth-a")
        wait_for_link("veth-b", peer)
        with Lab(options, namespace_pids={"b": peer.pid}) as lab:
            lab.set_addresses("a", ADDRESS_A)
            lab.set_addresses("b", ADDRESS_B)
            for run in RUNS:
                port = lab.free_port()
                words = run.split()
                argv = [words[0], "-p", str(port), *words[1:]]
                server = lab.start_server("a", argv, port)
                client = lab.start("b", [*argv, ADDRESS_A])
                client.expect_success(SECONDS_MAX)
                server.expect_success(SECONDS_MAX)
                print(f"passed: {run}", flush=True)
    finally:
        peer.close()


if __name__ == "__main__":
    sys.exit(main())
