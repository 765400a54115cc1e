#!/usr/bin/env python3
"""iWARP: two nodes over TCP. The programs of rdma_cm, and perftest's over it."""

import ipaddress
import sys

from testbed import SKIPPED, Failure, Testbed, are_installed, option_parser, wait_until

SECONDS_MAX = 60
MANY = 1000  # Messages or packets, more than the set-up needs.

# Server and client of rdma_cm; the server's address is appended to the client's command.
CONNECTIONS = (
    ("rping -s -C 10 -v", "rping -c -C 10 -v -a"),
    ("rping -s -C 3 -S 60000", "rping -c -C 3 -S 60000 -a"),
    ("rping -s -P -p 7180", "rping -c -C 5 -p 7180 -a"),
    ("ucmatose -c 10 -C 20 -S 5000", "ucmatose -c 10 -C 20 -S 5000 -s"),
    ("rdma_server", "rdma_client -s"),
    ("rstream -S all -C 10", "rstream -S all -C 10 -s"),
)
# perftest: -R connects with rdma_cm.
RUNS = (
    "ib_send_bw -R -F -n 200",
    "ib_send_lat -R -F -n 500",
    "ib_write_bw -R -F -n 200 -a",
    "ib_write_lat -R -F -n 500 -s 100",
    "ib_read_bw -R -F -n 200",
    "ib_read_lat -R -F -n 200 -e",
    "ib_atomic_bw -R -F -n 200",
)


def check_device(testbed):
    testbed.expect_output("a", ["ibv_devinfo", "-v"], "iWARP (1)", "verbatim0")
    testbed.expect_output("a", ["ibv_devinfo", "-v"], "gid_tbl_len:\t\t1\n")
    device = "/sys/class/infiniband/verbatim0"
    testbed.expect_output("a", ["cat", f"{device}/node_type"], "4: RNIC")
    mac = [2, 0, *(int(byte) for byte in testbed.address("a").split("."))]  # Of a node on loopback.
    gid = ":".join(f"{high:02x}{low:02x}" for high, low in zip(mac[::2], mac[1::2])) + 5 * ":0000"
    testbed.expect_output("a", ["cat", f"{device}/ports/1/gids/0"], gid)
    watch = testbed.start("a", [f"{testbed.build}/bin/cm_watch", testbed.address("a")])
    wait_until(lambda: watch.output() == f"bound, GID {ipaddress.IPv6Address(gid)}\n", SECONDS_MAX,
               "rdma_cm to tell the port's GID")
    watch.kill()


def check_killed(testbed, victim, survivor):
    """Checks that a program whose peer is killed gets an event, and ends."""
    port = testbed.free_port()
    argv = ["ib_write_bw", "-R", "-F", "-p", str(port), "--run_infinitely"]
    programs = {"a": testbed.start_server("a", argv, port)}
    programs["b"] = testbed.start("b", [*argv, testbed.address("a")])
    wait_until(lambda: any(program["direct"]["messages_sent"] + program["counters"]["packets_sent"] > MANY
                           for program in testbed.status("b")), SECONDS_MAX, "the client to write")
    programs[victim].kill()
    if programs[survivor].wait(SECONDS_MAX) == 0:
        raise Failure(f"{programs[survivor].name} noticed nothing when its peer was killed")


def main():
    options = option_parser(__doc__).parse_args()
    if not are_installed("rping", "ib_write_bw"):
        return SKIPPED
    with Testbed(options) as testbed:
        for node in ("a", "b"):
            testbed.set_variables(node, VERBATIM_PROTOCOL="iwarp")
        check_device(testbed)
        for server, client in CONNECTIONS:
            testbed.run_connection(server, client, SECONDS_MAX)
        for run in RUNS:
            testbed.run_pair(run, SECONDS_MAX)
        check_killed(testbed, "a", "b")
        check_killed(testbed, "b", "a")
    return 0


if __name__ == "__main__":
    sys.exit(main())
