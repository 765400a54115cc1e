#!/usr/bin/env python3
"""RoCE v1: two nodes in two network namespaces, joined by a veth pair. Every kind of queue pair, through
packet sockets; every packet is a frame of type 0x8915, and is judged (tests/wire_judge)."""

import sys

from testbed import SKIPPED, Failure, Testbed, are_installed, option_parser, wait_until
from namespaces import enter_user_namespace, joined_by_veth
from test_capture import SECONDS_MAX, Capture, judged_opcodes

# RC, UC and UD opcodes that these programs send.
OPCODES = {*range(0x00, 0x03), 0x04, *range(0x06, 0x09), 0x0A, *range(0x0C, 0x13), 0x14, 0x20, 0x21, 0x22, 0x64}

# The GIDs of the link-local address, of both versions, come first: index 2 is RoCE v1 over IPv4.
RUNS = (
    "ibv_rc_pingpong -g 2 -c",
    "ibv_rc_pingpong -g 2 -c -m 1024 -s 100000 -n 100",
    "ibv_uc_pingpong -g 2 -c",
    "ibv_ud_pingpong -g 2 -c -s 1024",
    "ib_send_bw -F -x 2 -n 200",
    "ib_write_bw -F -x 2 -n 200 -m 1024",
    "ib_write_lat -F -x 2 -n 20 -s 100",
    "ib_read_bw -F -x 2 -n 200 -e",
    "ib_send_lat -F -x 2 -n 500",
    "ib_send_lat -F -x 2 -n 500 -c UD",
    "ib_atomic_bw -F -x 2 -n 500",
)
# Server and client of rdma_cm; the server's address is appended to the client's command.
CONNECTIONS = (
    ("rping -s -C 10", "rping -c -C 10 -v -a"),
    ("ucmatose", "ucmatose -s"),
    ("udaddy", "udaddy -s"),
    ("rstream -S 1000 -C 10 -I 10", "rstream -S 1000 -C 10 -I 10 -s"),
)
# VERBATIM_ROCE of server and client, and the client's message.
DIFFERENT = (
    ("v1,v2", "v2", "RDMA_CM_EVENT_REJECTED, error 12"),
    ("v1,v2", "v2,v1", "RDMA_CM_EVENT_REJECTED, error 12"),
    ("v2", "v1,v2", "RDMA_CM_EVENT_UNREACHABLE"),
)


def make_lab(options, cable, server, client):
    peer, address_a, address_b = cable
    testbed = Testbed(options, namespace_pids={"b": peer.pid})
    testbed.set_addresses("a", address_a)
    testbed.set_addresses("b", address_b)
    testbed.set_variables("a", VERBATIM_ROCE=server)
    testbed.set_variables("b", VERBATIM_ROCE=client)
    return testbed


def run_programs(testbed):
    for run in RUNS:
        testbed.run_pair(run, SECONDS_MAX)


def listening(testbed, server):
    """Returns the program when it listens on the first node."""
    program = testbed.start("a", server.split())
    wait_until(lambda: testbed.bound_ports("a"), SECONDS_MAX, f"{server} to listen")
    return program


def run_group(testbed):
    """Members on both hosts receive what one of them sends."""
    join = ["stdbuf", "-oL", "mckey", "-m", "239.77.0.5", "-b"]
    members = [testbed.start(node, [*join, testbed.address(node)]) for node in ("a", "b")]
    for member in members:
        wait_until(lambda: "receiving data transfers" in member.output(), SECONDS_MAX, "a member to join")
    testbed.start("b", [*join, testbed.address("b"), "-s"]).expect_success(SECONDS_MAX)
    for member in members:
        member.expect_success(SECONDS_MAX)
    print("passed: mckey", flush=True)


def check_absent_neighbour(testbed):
    """A program that waits for an absent host delays no other one."""
    absent = testbed.start("b", ["stdbuf", "-oL", f"{testbed.build}/bin/absent_neighbour", "10.77.0.99", testbed.address("a")])
    absent.expect_success(SECONDS_MAX)
    if absent.output().index("a handle is made") > absent.output().index("nobody answers"):
        raise Failure("a handle to a host that is there waits for one that is not")
    print("passed: absent_neighbour", flush=True)


def check_difference(options, cable, server, client, word):
    """A request over the other version is refused, with a log line."""
    with make_lab(options, cable, server, client) as testbed:
        listening(testbed, "rping -s -C 1")
        asking = testbed.start("b", ["rping", "-c", "-C", "1", "-a", testbed.address("a")])
        asking.wait(SECONDS_MAX)
        if word not in asking.output() or "VERBATIM_ROCE" not in asking.output():
            raise Failure(f"{client} to {server}: the client does not say {word} and VERBATIM_ROCE")
        print(f"passed: {client} to {server}: {word}", flush=True)


def main():
    options = option_parser(__doc__).parse_args()
    if not are_installed("tshark", "dumpcap", "rping"):
        return SKIPPED
    enter_user_namespace()
    with joined_by_veth() as cable:
        with make_lab(options, cable, "v1,v2", "v1,v2") as testbed:
            testbed.expect_output("a", ["ibv_devinfo", "-v"], "::ffff:10.77.0.1, RoCE v2", "RoCE v1")
            testbed.expect_output("a", ["cat", "/sys/class/infiniband/verbatim0/ports/1/gid_attrs/types/2"],
                              "IB/RoCE v1")
            capture = Capture(testbed.folder, "veth-a", "ether proto 0x8915 or udp port 4791")
            run_programs(testbed)
            for server, client in CONNECTIONS:
                testbed.run_connection(server, client, SECONDS_MAX)
            run_group(testbed)
            check_absent_neighbour(testbed)
            capture.stop()
            seen = judged_opcodes(capture.path)
            if OPCODES - seen:
                raise Failure("no packet of opcode " + ", ".join(f"0x{code:02x}" for code in OPCODES - seen))
        for difference in DIFFERENT:
            check_difference(options, cable, *difference)
    return 0


if __name__ == "__main__":
    sys.exit(main())
