#!/usr/bin/env python3
"""Eight programs of one node at once on one UDP port; one is killed with SIGKILL, and no other notices."""

import json
import os
import re
import signal
import subprocess
import sys

from testbed import Failure, Testbed, option_parser, wait_until

PROGRAMS = 8
VICTIM = 3
MESSAGES = 200_000  # Some seconds: all must be running before the kill.
SECONDS_MAX = 90


def arguments(testbed, number):
    """Returns the arguments of one pair. The victim would run for hours."""
    messages = 100_000_000 if number == VICTIM else MESSAGES  # The most that perftest allows.
    # Sleeping on events (-e): sixteen polling programs would starve each other on two CPUs.
    return ["ib_send_bw", "-F", "-e", "-N", "-p", str(testbed.free_port()), "-s", "4096",
            "-n", str(messages)]


def programs_with_traffic(testbed):
    """Returns how many programs of node a have received anything, by `verbatim status`."""
    status = subprocess.run([f"{testbed.build}/bin/verbatim", "status", "--json"], text=True, check=True,
                            env=testbed.environment(), stdout=subprocess.PIPE).stdout
    return sum(program["counters"]["packets_received"] + program["direct"]["messages_received"] > 0
               for node in json.loads(status) if node["node"] == "a"
               for program in node["programs"])


def main():
    options = option_parser(__doc__).parse_args()
    with Testbed(options) as testbed:
        argvs = [arguments(testbed, number) for number in range(PROGRAMS)]
        servers = [testbed.start_server("a", argv, int(argv[argv.index("-p") + 1])) for argv in argvs]
        clients = [testbed.start("b", [*argv, testbed.address("a")]) for argv in argvs]
        couples = list(zip(servers, clients))
        wait_until(lambda: programs_with_traffic(testbed) == PROGRAMS, SECONDS_MAX,
                   "all programs to receive at the same time")
        victim_server, victim_client = couples.pop(VICTIM)
        os.killpg(victim_server.process.pid, signal.SIGKILL)
        for server, client in couples:
            client.expect_success(SECONDS_MAX)
            server.expect_success(SECONDS_MAX)
            if not re.search(r"^ *4096 +\d+ ", client.output(), re.MULTILINE):
                raise Failure(f"{client.name} printed no result")
        # Its peer is gone: retries end, and the program fails instead of hanging.
        if victim_client.wait(SECONDS_MAX) == 0:
            raise Failure("the client of the killed server ended as if nothing had happened")


if __name__ == "__main__":
    sys.exit(main())
