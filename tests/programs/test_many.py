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
SECONDS_OF_TRAFFIC = 4
SECONDS_MAX = 90


def start_couple(lab, number):
    """Server on node a, client on node b. The victim would run for an hour."""
    port = lab.free_port()
    seconds = 3600 if number == VICTIM else SECONDS_OF_TRAFFIC
    # Sleeping on events: sixteen polling programs would starve each other on two processors.
    argv = ["ib_send_bw", "-F", "-e", "-p", str(port), "-s", "4096", "-D", str(seconds)]
    server = lab.start_server("a", argv, port)
    return server, lab.start("b", [*argv, lab.address("a")])


def has_begun(client):
    """The client prints the column heads when both sides are connected."""
    if client.ended():
        raise Failure(f"{client.name} ended before its traffic began")
    return "#bytes" in client.output()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--preload", default="")
    options = parser.parse_args()
    with Lab(options.build, options.preload) as lab:
        couples = [start_couple(lab, number) for number in range(PROGRAMS)]
        for _, client in couples:
            wait_until(lambda c=client: has_begun(c), SECONDS_MAX, f"{client.name} to begin")
        victim_server, victim_client = couples.pop(VICTIM)
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
