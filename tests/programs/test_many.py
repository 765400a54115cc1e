#!/usr/bin/env python3
"""Eight programs of one node at once on one UDP port; one is killed with SIGKILL, and no other notices."""

import argparse
import os
import re
import signal
import sys

from lab import Failure, Lab, wait_until

PROGRAMS = 8
VICTIM = 3
MESSAGES = 50_000
SECONDS_MAX = 90


def arguments(lab, number):
    """Of a couple. The victim would run for hours."""
    messages = MESSAGES * 2000 if number == VICTIM else MESSAGES
    # Sleeping on events (-e): sixteen polling programs would starve each other on two processors.
    return ["ib_send_bw", "-F", "-e", "-N", "-p", str(lab.free_port()), "-s", "4096",
            "-n", str(messages)]


def has_begun(client):
    """The client prints the column heads when both sides are connected."""
    return "#bytes" in client.output()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--preload", default="")
    options = parser.parse_args()
    with Lab(options.build, options.preload) as lab:
        argvs = [arguments(lab, number) for number in range(PROGRAMS)]
        servers = [lab.start_server("a", argv, int(argv[argv.index("-p") + 1])) for argv in argvs]
        clients = [lab.start("b", [*argv, lab.address("a")]) for argv in argvs]
        couples = list(zip(servers, clients))
        for _, client in couples:
            wait_until(lambda c=client: has_begun(c), SECONDS_MAX, f"{client.name} to begin")
        victim_server, victim_client = couples.pop(VICTIM)
        if any(client.ended() for _, client in couples):
            raise Failure("a program ended before the kill: the test has to send more messages")
        os.killpg(victim_server.process.pid, signal.SIGKILL)
        for server, client in couples:
            client.expect_success(SECONDS_MAX)
            server.expect_success(SECONDS_MAX)
            if not re.search(r"^ *4096 +\d+ ", client.output(), re.MULTILINE):
                raise Failure(f"{client.name} printed no result")
        # Its peer is gone: retries run out, and the program ends with an error, not never.
        if victim_client.wait(SECONDS_MAX) == 0:
            raise Failure("the client of the killed server ended as if nothing had happened")


if __name__ == "__main__":
    sys.exit(main())
