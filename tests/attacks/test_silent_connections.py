#!/usr/bin/env python3
"""iWARP: strangers who open TCP connections and say nothing take neither all descriptors of a server nor its
processor, and keep nobody out. Nor does a server without a free descriptor compute while somebody waits."""

import contextlib
import os
import resource
import socket
import sys
import time

from kit import Failure, Testbed, SKIPPED, enter_user_namespace, option_parser, wait_until
from testbed import cpu_seconds

DESCRIPTORS = 1024  # What most shells allow.
STRANGERS = 1100
SECONDS_MEASURED = 2
CPU_SECONDS_MAX = 0.2
SECONDS_MAX = 30


@contextlib.contextmanager
def strangers(address, port, count):
    """Returns `count` sockets that connect at once, and neither read nor write."""
    with contextlib.ExitStack() as sockets:
        for _ in range(count):
            stranger = sockets.enter_context(socket.socket())
            stranger.setblocking(False)
            stranger.connect_ex((address, port))
        yield


def expect_idle(server, what):
    before = cpu_seconds(server.process.pid)
    time.sleep(SECONDS_MEASURED)  # The measurement.
    used = cpu_seconds(server.process.pid) - before
    print(f"{what}: {used:.2f} s of processor time in {SECONDS_MEASURED} s, "
          f"{len(descriptors(server))} descriptors", flush=True)
    if used > CPU_SECONDS_MAX:
        raise Failure(f"{what}, the server computes {used:.2f} s in {SECONDS_MEASURED} s")


def descriptors(server):
    return [int(number) for number in os.listdir(f"/proc/{server.process.pid}/fd")]


def expect_service(testbed, port):
    testbed.start("b", [f"{testbed.build}/bin/greeter", "client", testbed.address("a"), str(port)]).expect_success(SECONDS_MAX)


def check_flood(testbed, server, port):
    with strangers(testbed.address("a"), port, STRANGERS):
        expect_idle(server, f"{STRANGERS} silent connections")
        taken = len(descriptors(server))
        if taken > DESCRIPTORS // 2:
            raise Failure(f"strangers let the server have {taken} of its {DESCRIPTORS} descriptors")
        expect_service(testbed, port)


def check_no_descriptor(testbed, server, port):
    """The server's own descriptors use up its limit."""
    pid = server.process.pid
    wait_until(lambda: len(descriptors(server)) < 100, SECONDS_MAX, "the strangers to be forgotten")
    highest = max(descriptors(server)) + 1
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (highest, DESCRIPTORS))
    free = highest - len(descriptors(server))
    with strangers(testbed.address("a"), port, free + 5):
        expect_idle(server, "no descriptor left")
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
        expect_service(testbed, port)


def main():
    options = option_parser(__doc__).parse_args()
    enter_user_namespace()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 2 * STRANGERS:
        print("skipped: this test needs more descriptors than it may have")
        return SKIPPED
    with Testbed(options) as testbed:
        for node in ("a", "b"):
            testbed.set_variables(node, VERBATIM_PROTOCOL="iwarp")
        port = testbed.free_port()
        command = f"ulimit -n {DESCRIPTORS}; exec {testbed.build}/bin/greeter server {testbed.address('a')} {port}"
        server = testbed.start_server("a", ["sh", "-c", command], port)
        check_flood(testbed, server, port)
        check_no_descriptor(testbed, server, port)
    return 0


if __name__ == "__main__":
    sys.exit(main())
