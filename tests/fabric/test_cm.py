#!/usr/bin/env python3
"""Debian's programs of rdma_cm between two hosts of a fabric: paths come from the subnet administrator, and the data
crosses three switches."""

import sys

from fabricbed import CHAIN, FabricBed, HostsTestbed

from test_rdmacm import PAIRS, run_killed_client, run_pair
from testbed import SKIPPED, Failure, are_installed, option_parser, wait_until

SECONDS_MAX = 60
HOSTS = {"a": "H1", "b": "H2"}
MIDDLE, TO_H1, TO_H2 = "S2", 1, 2  # The switch between the other two, and its ports.
SIZE, COUNT = 65536, 200
BANDWIDTH = f"-R -F -s {SIZE} -n {COUNT}"
DATAGRAM_BYTES, DATAGRAMS = 512, 100


def run_bandwidth(bed, testbed):
    """Queue pairs that rdma_cm has connected send through the switches, not past them."""
    for name, to in ((f"ib_write_bw {BANDWIDTH}", TO_H1), (f"ib_read_bw {BANDWIDTH}", TO_H2)):
        before = bed.bytes_sent(MIDDLE, to)
        run_pair(testbed, name, f"{name} -p {{port}}", f"{name} -p {{port}} {{a}}")
        sent = bed.bytes_sent(MIDDLE, to) - before
        if sent < SIZE * COUNT:
            raise Failure(f"{name}: only {sent} bytes have crossed the middle switch")


def run_datagrams(bed, testbed):
    """Datagrams of rsockets cross the switches once each side knows the other's queue pair; the first go by UDP."""
    port = testbed.free_port()
    command = f"udpong -T e -S {DATAGRAM_BYTES} -C {DATAGRAMS} -p {port}"
    server = testbed.start("a", f"{command} -b {testbed.address('a')}".split())
    wait_until(lambda: server.ended() or any(bound["port"] == port for bound in testbed.bound_ports("a")), SECONDS_MAX,
               "udpong to bind its port")
    before = [bed.bytes_sent(MIDDLE, to) for to in (TO_H1, TO_H2)]
    testbed.start("b", f"{command} -s {testbed.address('a')}".split()).expect_success(SECONDS_MAX)
    for to, count in zip((TO_H1, TO_H2), before):
        sent = bed.bytes_sent(MIDDLE, to) - count
        if sent < DATAGRAM_BYTES * DATAGRAMS // 2:
            raise Failure(f"udpong: only {sent} bytes have crossed the middle switch's port {to}")
    server.kill()
    print("udpong: ok", flush=True)


def expect_failure(testbed, why, words):
    port = testbed.free_port()
    client = testbed.start("b", f"rping -c -v -a {testbed.address('a')} -p {port} -C 1".split())
    client.wait(SECONDS_MAX)
    if words not in client.output():
        raise Failure(f"{why}: the client does not say '{words}'")
    print(f"{why}: ok", flush=True)


def run_unreachable(bed, testbed, manager):
    """A host without a server; a port without a cable; a fabric without a manager, whose host says so."""
    expect_failure(testbed, "nobody listens", "RDMA_CM_EVENT_REJECTED")
    bed.verbatim("fabric", "link", "S3/2", "down")
    expect_failure(testbed, "the port has no cable", "RDMA_CM_EVENT_ROUTE_ERROR, error -110")
    bed.verbatim("fabric", "link", "S3/2", "up")
    bed.wait_until_active(*HOSTS.values())
    bed.end(manager)
    expect_failure(testbed, "the manager is dead", "RDMA_CM_EVENT_ROUTE_ERROR, error -22")


def main():
    options = option_parser(__doc__).parse_args()
    if not are_installed("opensm", "perfquery", "rping", "udpong", "ib_write_bw"):
        return SKIPPED
    with FabricBed(options) as bed:
        bed.up(CHAIN)
        manager, _ = bed.start_manager("H1")
        bed.wait_until_active(*HOSTS.values())
        with HostsTestbed(options, bed, HOSTS) as testbed:
            for pair in PAIRS:
                run_pair(testbed, *pair)
            run_bandwidth(bed, testbed)
            run_datagrams(bed, testbed)
            run_killed_client(testbed)
            run_unreachable(bed, testbed, manager)
    return 0


if __name__ == "__main__":
    sys.exit(main())
