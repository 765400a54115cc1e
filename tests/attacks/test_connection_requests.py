#!/usr/bin/env python3
"""Connection requests that strangers send to queue pair 1. A flood of them from one address keeps nobody else from
connecting; one that claims to be the peer of a connection does not end it."""

import sys
import time

from kit import Failure, enter_user_namespace, option_parser, two_hosts, wait_until
from management import Flood, request
from packets import Attacker

SECONDS_MAX = 60
FLOOD_PER_SECOND = 500
# The server takes a request in 50 ms: of the flood, one in 25.
MILLISECONDS_A_REQUEST = 50
BACKLOG = 16
STRANGER = "10.77.0.66"
CONNECTS = 5


def program(hosts, node, *words):
    return hosts.testbed.start(node, [f"{hosts.testbed.build}/bin/connections", *map(str, words)])


def start_server(hosts, port, backlog, milliseconds):
    server = program(hosts, "a", "serve", port, backlog, milliseconds)
    wait_until(lambda: "listens" in server.output(), SECONDS_MAX, "the server to listen")
    return server


def flood(hosts, port):
    server = start_server(hosts, port, BACKLOG, MILLISECONDS_A_REQUEST)
    with Flood(Attacker(hosts.pids["b"]), [STRANGER], hosts.ipv4["a"], port, FLOOD_PER_SECOND) as requests:
        wait_until(lambda: requests.sent > FLOOD_PER_SECOND and "stranger" in server.output(), SECONDS_MAX,
                   "the flood to arrive")
        client = program(hosts, "b", "connect", hosts.ipv4["a"], port, CONNECTS)
        client.expect_success(SECONDS_MAX)
    print(f"passed: {CONNECTS} connections among {requests.sent} requests", flush=True)
    server.kill()


def queue_pair_of_client(hosts):
    """Returns GUID and queue pair number of node b's only queue pair, which a stranger can find out or guess."""
    node = hosts.testbed.node_status("b")
    guid = int(node["guid"].replace(":", ""), 16)
    return guid, next(pair["qpn"] for one in node["programs"] for pair in one["queue_pairs"])


def claim_to_be_the_peer(hosts, port):
    server = start_server(hosts, port, BACKLOG, 0)
    client = program(hosts, "b", "hold", hosts.ipv4["a"], port)
    wait_until(lambda: "ESTABLISHED" in server.output(), SECONDS_MAX, "the connection")
    guid, qpn = queue_pair_of_client(hosts)
    Attacker(hosts.pids["b"]).send(request(STRANGER, hosts.ipv4["a"], port, 1, guid=guid, qpn=qpn))
    wait_until(lambda: "stranger" in server.output() or "DISCONNECTED" in server.output(), SECONDS_MAX,
               "the server to take the stranger's request")
    time.sleep(1)  # Time for its effects.
    if client.ended() or "DISCONNECTED" in server.output():
        raise Failure("a stranger's request has ended the connection")
    print("passed: a stranger with the peer's GUID and queue pair number", flush=True)


def main():
    options = option_parser(__doc__).parse_args()
    enter_user_namespace()
    with two_hosts(options) as hosts:
        flood(hosts, 7001)
        claim_to_be_the_peer(hosts, 7002)
    return 0


if __name__ == "__main__":
    sys.exit(main())
