#!/usr/bin/env python3
"""The programs of rdmacm-utils, as server on node a and client on node b."""

import os
import signal
import sys

from testbed import SKIPPED, Failure, Testbed, are_installed, option_parser, wait_until

SECONDS = 60
UDADDY_PORT = 7174  # It cannot be changed.

# Name, server, client; {a} and {b} are the nodes' addresses, {port} a port of theirs.
PAIRS = [
    ("rping", "rping -s -a {a} -p {port} -v -C 100", "rping -c -a {a} -p {port} -v -V -C 100"),
    ("rping of large messages", "rping -s -a 0.0.0.0 -p {port} -C 20 -S 60000",
     "rping -c -a {a} -p {port} -V -C 20 -S 60000"),
    ("rdma_server", "rdma_server -p {port}", "rdma_client -s {a} -p {port}"),
    ("ucmatose", "ucmatose -b {a} -p {port} -c 20 -C 10 -S 4096",
     "ucmatose -s {a} -p {port} -c 20 -C 10 -S 4096"),
    ("ucmatose with migration", "ucmatose -b {a} -p {port} -m", "ucmatose -s {a} -p {port} -m"),
    ("udaddy", "udaddy -b {a} -c 4 -C 10", "udaddy -s {a} -c 4 -C 10"),
]


def argv(testbed, command, port):
    return command.format(a=testbed.address("a"), b=testbed.address("b"), port=port).split()


def start_server(testbed, command, port):
    """Starts a program on node a, and waits until one of its ids listens."""
    server = testbed.start("a", argv(testbed, command, port))
    awaited = port if "{port}" in command else UDADDY_PORT

    def listens():
        if server.ended():
            raise Failure(f"{server.name} ended with status {server.process.returncode} early")
        return any(bound["listens"] and bound["port"] == awaited for bound in testbed.bound_ports("a"))

    wait_until(listens, 20, f"{server.name} to listen")
    return server


def run_pair(testbed, name, server_command, client_command):
    port = testbed.free_port()
    server = start_server(testbed, server_command, port)
    client = testbed.start("b", argv(testbed, client_command, port))
    client.expect_success(SECONDS)
    server.expect_success(SECONDS)
    print(f"{name}: ok", flush=True)


def run_persistent_server(testbed):
    port = testbed.free_port()
    server = start_server(testbed, "rping -s -P -a {a} -p {port}", port)
    command = argv(testbed, "rping -c -v -V -a {a} -p {port} -C 500", port)
    clients = []
    # All at once, but started one after the other: rping has one slot for requests that it has not
    # taken up, and a second one in it makes it use the same id twice.
    for _ in range(4):
        client = testbed.start("b", command)
        wait_until(lambda new=client: new.ended() or "rdma-ping-0:" in new.output(), SECONDS,
                   "the first ping")
        clients.append(client)
    for client in clients:
        client.expect_success(SECONDS)
    server.kill()
    print("rping -P, four clients at once: ok", flush=True)


def run_killed_client(testbed):
    """kill -9 of one side: the other sees the end of the connection, and ends by itself."""
    port = testbed.free_port()
    server = start_server(testbed, "rping -s -a {a} -p {port}", port)
    client = testbed.start("b", argv(testbed, "rping -c -v -a {a} -p {port} -C 100000000", port))
    wait_until(lambda: client.ended() or "rdma-ping-10:" in client.output(), SECONDS, "pings")
    os.killpg(client.process.pid, signal.SIGKILL)
    server.wait(5)
    if "DISCONNECT" not in server.output():
        raise Failure("the server was not told of the client's death")
    print("kill -9 of the client: ok", flush=True)


def main():
    options = option_parser(__doc__).parse_args()
    if not are_installed("rping"):
        return SKIPPED
    with Testbed(options) as testbed:
        for pair in PAIRS:
            run_pair(testbed, *pair)
        run_persistent_server(testbed)
        for _ in range(5):  # It dies amid a transfer, or between two.
            run_killed_client(testbed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
