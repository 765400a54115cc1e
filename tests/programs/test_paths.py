#!/usr/bin/env python3
"""VERBATIM_PATH: which path two programs of one machine take, and what they say where there is none."""

import sys

from testbed import Failure, Testbed, option_parser, wait_until

SECONDS_MAX = 20
SETUP_PACKETS_MAX = 100  # Enough for rdma_cm and the choice of a path.
DIRECT, WIRE = "direct", "wire"
IWARP = "iWARP"

# VERBATIM_PATH of the server and the client ("": not set), and the resulting path.
PAIRS = [("", "", DIRECT), ("auto", "direct", DIRECT), ("direct", "direct", DIRECT),
         ("auto", "wire", WIRE), ("wire", "auto", WIRE)]
# Log line of a client that requires the direct path where there is none.
NO_PATH = {"RC": "VERBATIM_PATH=direct, and QP", "UC": "VERBATIM_PATH=direct, and QP",
           "XRC": "VERBATIM_PATH=direct, and QP", "UD": "VERBATIM_PATH=direct: no datagram"}


def set_path(path):
    return ["env", f"VERBATIM_PATH={path}"] if path else []


def start_pair(testbed, server_path, client_path, transport):
    port = testbed.free_port()
    kind = ["-R"] if transport == IWARP else ["-c", transport]
    argv = ["ib_send_bw", "-F", "-p", str(port), "-s", "1024", *kind, "--run_infinitely"]
    server = testbed.start_server("a", [*set_path(server_path), *argv], port)
    return server, testbed.start("b", [*set_path(client_path), *argv, testbed.address("a")])


def path_taken(testbed):
    """Returns the path by which messages have reached node a; None before the first."""
    for program in testbed.status("a"):
        if program["direct"]["messages_received"] > 0:
            return DIRECT
        if program["counters"]["packets_received"] > SETUP_PACKETS_MAX:
            return WIRE
    return None


def expect_path(testbed, server_path, client_path, path, transport):
    pair = start_pair(testbed, server_path, client_path, transport)
    taken = wait_until(lambda: path_taken(testbed), SECONDS_MAX, "messages")
    sent = testbed.status("b")[0]["direct"]["messages_sent"]
    for program in pair:
        program.kill()
    if taken != path or (sent > 0) != (path == DIRECT):
        raise Failure(f"{transport} with {server_path!r} and {client_path!r} took the path {taken}")
    wait_until(lambda: not testbed.status("a") + testbed.status("b"), SECONDS_MAX, "the programs to go")


def expect_words(program, words):
    if program.wait(SECONDS_MAX) == 0 or words not in program.output():
        raise Failure(f"{program.name} did not fail with '{words}'")


def main():
    # The programs' variables are set below.
    options = option_parser(__doc__).parse_args()
    options.path = ""
    with Testbed(options) as testbed:
        for pair in PAIRS:
            for transport in NO_PATH:
                expect_path(testbed, *pair, transport)
        # A program that requires the direct path is told when it must send; a passive side never
        # chooses the path.
        for transport, words in NO_PATH.items():
            server, client = start_pair(testbed, "wire", "direct", transport)
            expect_words(client, words)
            server.kill()
        expect_words(testbed.start("a", [*set_path("shortest"), "ibv_devinfo"]),
                     "VERBATIM_PATH=shortest is not auto, direct or wire")
        expect_words(testbed.start("a", ["env", "VERBATIM_BUSY_POLL=soon", "ibv_devinfo"]),
                     "VERBATIM_BUSY_POLL=soon is no number of microseconds")
        expect_words(testbed.start("a", ["env", "VERBATIM_RNR_GRACE=1000001", "ibv_devinfo"]),
                     "VERBATIM_RNR_GRACE=1000001 is no number of microseconds")
    with Testbed(options) as testbed:
        for node in ("a", "b"):
            testbed.set_variables(node, VERBATIM_PROTOCOL="iwarp")
        for pair in PAIRS:
            expect_path(testbed, *pair, IWARP)
        server, client = start_pair(testbed, "wire", "direct", IWARP)
        expect_words(client, "VERBATIM_PATH=direct, and the peer of QP")
        server.kill()


if __name__ == "__main__":
    sys.exit(main())
