#!/usr/bin/env python3
"""VERBATIM_PATH: which path two programs of one machine take, and what they say where there is none."""

import sys

from lab import Failure, Lab, option_parser, wait_until

SECONDS_MAX = 20
SETUP_PACKETS_MAX = 100  # What rdma_cm and the choice of a path may need.
DIRECT, WIRE = "direct", "wire"
IWARP = "iWARP"

# What the server and the client ask for ("": nothing), and what they get.
PAIRS = [("", "", DIRECT), ("auto", "direct", DIRECT), ("direct", "direct", DIRECT),
         ("auto", "wire", WIRE), ("wire", "auto", WIRE)]
# What a client says that insists on the direct path where there is none.
NO_PATH = {"RC": "VERBATIM_PATH=direct, and QP", "UC": "VERBATIM_PATH=direct, and QP",
           "XRC": "VERBATIM_PATH=direct, and QP", "UD": "VERBATIM_PATH=direct: no datagram"}


def set_path(path):
    return ["env", f"VERBATIM_PATH={path}"] if path else []


def start_pair(lab, server_path, client_path, transport):
    port = lab.free_port()
    kind = ["-R"] if transport == IWARP else ["-c", transport]
    argv = ["ib_send_bw", "-F", "-p", str(port), "-s", "1024", *kind, "--run_infinitely"]
    server = lab.start_server("a", [*set_path(server_path), *argv], port)
    return server, lab.start("b", [*set_path(client_path), *argv, lab.address("a")])


def path_taken(lab):
    """Where messages have come to node a; nothing yet: None."""
    for program in lab.status("a"):
        if program["direct"]["messages_received"] > 0:
            return DIRECT
        if program["counters"]["packets_received"] > SETUP_PACKETS_MAX:
            return WIRE
    return None


def expect_path(lab, server_path, client_path, path, transport):
    pair = start_pair(lab, server_path, client_path, transport)
    taken = wait_until(lambda: path_taken(lab), SECONDS_MAX, "messages")
    sent = lab.status("b")[0]["direct"]["messages_sent"]
    for program in pair:
        program.kill()
    if taken != path or (sent > 0) != (path == DIRECT):
        raise Failure(f"{transport} with {server_path!r} and {client_path!r} took the path {taken}")
    wait_until(lambda: not lab.status("a") + lab.status("b"), SECONDS_MAX, "the programs to go")


def expect_words(program, words):
    if program.wait(SECONDS_MAX) == 0 or words not in program.output():
        raise Failure(f"{program.name} did not fail with '{words}'")


def main():
    # What the programs ask for is theirs.
    options = option_parser(__doc__).parse_args()
    options.path = ""
    with Lab(options) as lab:
        for pair in PAIRS:
            for transport in NO_PATH:
                expect_path(lab, *pair, transport)
        # Who insists on it is told when it is to send; a passive side never asks for a path.
        for transport, words in NO_PATH.items():
            server, client = start_pair(lab, "wire", "direct", transport)
            expect_words(client, words)
            server.kill()
        expect_words(lab.start("a", [*set_path("shortest"), "ibv_devinfo"]),
                     "VERBATIM_PATH=shortest is not auto, direct or wire")
        expect_words(lab.start("a", ["env", "VERBATIM_BUSY_POLL=soon", "ibv_devinfo"]),
                     "VERBATIM_BUSY_POLL=soon is no number of microseconds")
        expect_words(lab.start("a", ["env", "VERBATIM_RNR_GRACE=1000001", "ibv_devinfo"]),
                     "VERBATIM_RNR_GRACE=1000001 is no number of microseconds")
    with Lab(options) as lab:
        for node in ("a", "b"):
            lab.set_variables(node, VERBATIM_PROTOCOL="iwarp")
        for pair in PAIRS:
            expect_path(lab, *pair, IWARP)
        server, client = start_pair(lab, "wire", "direct", IWARP)
        expect_words(client, "VERBATIM_PATH=direct, and the peer of QP")
        server.kill()


if __name__ == "__main__":
    sys.exit(main())
