#!/usr/bin/env python3
"""The same random socket calls give the same answers over rsockets and SDP as over TCP, whether sockets are RDMA's from the
start or when they are first used."""

import os
import subprocess
import sys

from testbed import Failure, Testbed, option_parser

SECONDS = 100
SEEDS = 25
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "socket_calls.py")


def words(testbed, first, seeds):
    return ["/usr/bin/python3", PROGRAM, testbed.address("a"), str(first), str(seeds)]


class Carrier(Testbed):
    """A testbed whose programs have these options of `verbatim run`."""

    options = ()

    def run_options(self, node):
        return [*super().run_options(node), *self.options]


def compare(testbed, carrier, forks, first, seeds, wanted):
    testbed.options = [carrier]
    testbed.set_variables("a", RDMAV_FORK_SAFE=forks)
    program = testbed.start("a", words(testbed, first, seeds))
    program.expect_success(SECONDS)
    found = [line for line in program.output().splitlines() if not line.startswith("verbatim: ")]
    for number, (ours, tcps) in enumerate(zip(found, wanted)):
        if ours != tcps:
            before = "\n".join(wanted[max(0, number - 60):number])
            raise Failure(f"{carrier}, RDMAV_FORK_SAFE={forks}: after\n{before}\nTCP says {tcps!r}, and this is {ours!r}")
    if len(found) != len(wanted):
        raise Failure(f"{carrier}: {len(found)} answers instead of {len(wanted)}")
    print(f"{carrier}, RDMAV_FORK_SAFE={forks}: {len(found)} answers are TCP's", flush=True)


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    options = parser.parse_args()
    with Carrier(options) as testbed:
        by_tcp = subprocess.run(words(testbed, options.first, options.seeds), check=True, capture_output=True, text=True,
                                timeout=SECONDS)
        for carrier in ("--rsockets", "--sdp"):
            for forks in ("0", "1"):
                compare(testbed, carrier, forks, options.first, options.seeds, by_tcp.stdout.splitlines())
    return 0


if __name__ == "__main__":
    sys.exit(main())
