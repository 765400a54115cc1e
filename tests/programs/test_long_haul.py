#!/usr/bin/env python3
"""Connections between two hosts (network namespaces, a veth pair) outlive what a card's connections outlive:
the cable pulled, an address taken away, an MTU too small, for less than the retries take. rping checks each
message's content. Over both versions of RoCE, and iWARP."""

import sys
import time

from testbed import Failure, Testbed, option_parser, wait_until
from namespaces import enter_user_namespace, ip, joined_by_veth

SECONDS_MAX = 30
GONE_SECONDS = 0.5  # Less than a connection's retries take.
BYTES = 30000
FOREVER = "100000000"

WIRES = {
    "RoCE v2": {"VERBATIM_ROCE": "v2"},
    "RoCE v1": {"VERBATIM_ROCE": "v1"},
    "iWARP": {"VERBATIM_PROTOCOL": "iwarp"},
}
# Changes of the interface, and how they are undone.
TROUBLES = (
    ("ip link set veth-a down", "ip link set veth-a up"),
    ("ip address del 10.77.0.1/24 dev veth-a", "ip address add 10.77.0.1/24 dev veth-a"),
    ("ip link set veth-a mtu 600", "ip link set veth-a mtu 1500"),
)


def messages(testbed):
    """Returns how many messages the first node's queue pairs have sent in packets, by the packet counters."""
    return sum(pair["counters"]["packets_sent"] for program in testbed.status("a")
               for pair in program["queue_pairs"])


def expect_progress(testbed, programs, after):
    def goes_on():
        for program in programs:
            if program.ended():
                raise Failure(f"after {after}: {program.name} has ended")
        return messages(testbed) > before + 100

    before = messages(testbed)
    wait_until(goes_on, SECONDS_MAX, f"packets after {after}")


def outlive(options, cable, wire):
    peer, address_a, address_b = cable
    with Testbed(options, namespace_pids={"b": peer.pid}) as testbed:
        testbed.set_addresses("a", address_a)
        testbed.set_addresses("b", address_b)
        for node in ("a", "b"):
            testbed.set_variables(node, **WIRES[wire])
        words = ["rping", "-V", "-C", FOREVER, "-S", str(BYTES)]
        server = testbed.start("a", [*words, "-s"])
        wait_until(lambda: testbed.bound_ports("a"), SECONDS_MAX, "rping to listen")
        programs = server, testbed.start("b", [*words, "-c", "-a", address_a])
        wait_until(lambda: testbed.status("a")[0]["queue_pairs"], SECONDS_MAX, "the connection")
        expect_progress(testbed, programs, "connecting")
        for trouble, end in TROUBLES:
            ip(trouble)
            time.sleep(GONE_SECONDS)
            ip(end)
            expect_progress(testbed, programs, trouble)
            print(f"passed, {wire}: {trouble}", flush=True)
        for program in programs:
            program.kill()


def main():
    options = option_parser(__doc__).parse_args()
    enter_user_namespace()
    with joined_by_veth() as cable:
        for wire in WIRES:
            outlive(options, cable, wire)


if __name__ == "__main__":
    sys.exit(main())
