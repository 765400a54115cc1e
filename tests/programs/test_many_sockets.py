#!/usr/bin/env python3
"""Connections over rsockets and SDP that come and go leave nothing: descriptors, memory, files, queue pairs."""

import collections
import os
import sys

from test_socket_calls import Carrier
from testbed import Failure, cpu_seconds, option_parser, wait_until

PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "many_sockets.py")
RISE_MOST = 24 << 20
FOR_AGENTS = 2  # Descriptors by which a program may be connected to agents.


def descriptors(process):
    """Their number of each kind."""
    names = collections.Counter()
    for number in os.listdir(f"/proc/{process.pid}/fd"):
        try:
            names[os.readlink(f"/proc/{process.pid}/fd/{number}").split(":[")[0]] += 1
        except OSError:
            pass  # Closed meanwhile.
    return names


def resident(process):
    with open(f"/proc/{process.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def files(testbed):
    return sum(len(names) for _, _, names in os.walk(testbed.folder))


def has_queue_pairs(testbed):
    return any(program["queue_pairs"] for node in "ab" for program in testbed.status(node))


def expect_nothing_left(testbed, total, at_once, seconds):
    port = testbed.free_port()
    rest = [testbed.address("a"), str(port)]
    server = testbed.start_server("a", ["/usr/bin/python3", PROGRAM, "server", *rest], port)

    def run(amount):
        client = testbed.start("b", ["/usr/bin/python3", PROGRAM, "client", *rest, str(amount), str(at_once)])
        client.expect_success(seconds)
        wait_until(lambda: not has_queue_pairs(testbed), 20, "the queue pairs to end")
        return client.output()

    run(2 * at_once)
    process = server.process
    before, memory, cpu = descriptors(process), resident(process), cpu_seconds(process.pid)
    there = files(testbed)
    print(run(total).strip())
    print(f"the server: {(cpu_seconds(process.pid) - cpu) / total * 1e6:.0f} us of processor each", flush=True)
    try:
        wait_until(lambda: (descriptors(process) - before).total() <= FOR_AGENTS, 20, "descriptors to be closed")
    except Failure:
        raise Failure(f"the server has descriptors more: {descriptors(process) - before}") from None
    if resident(process) - memory > RISE_MOST:
        raise Failure(f"the server has {resident(process) - memory} bytes more")
    if files(testbed) > there + 1:  # The client's output.
        raise Failure(f"{files(testbed)} files, and {there} before")
    server.kill()


def expect_answers_for_a_crowd(testbed, amount, seconds):
    port = testbed.free_port()
    rest = [testbed.address("a"), str(port)]
    server = testbed.start_server("a", ["/usr/bin/python3", PROGRAM, "server", *rest], port)
    crowd = testbed.start("b", ["/usr/bin/python3", PROGRAM, "crowd", *rest, str(amount)])
    crowd.expect_success(seconds)
    print(crowd.output().strip(), flush=True)
    server.kill()


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--total", type=int, default=300)
    parser.add_argument("--at-once", type=int, default=30)
    parser.add_argument("--crowd", type=int, default=300)
    parser.add_argument("--seconds", type=int, default=60)
    options = parser.parse_args()
    for carrier in ("--rsockets", "--sdp"):
        with Carrier(options) as testbed:
            testbed.options = [carrier]
            for at_once in (1, options.at_once):
                expect_nothing_left(testbed, options.total, at_once, options.seconds)
            expect_answers_for_a_crowd(testbed, options.crowd, options.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
