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


def words(address, first, seeds, *more):
    return ["/usr/bin/python3", PROGRAM, address, str(first), str(seeds), *more]


class Carrier(Testbed):
    """A testbed whose programs have these options of `verbatim run`."""

    options = ()
    faults = ()

    def run_options(self, node):
        return [*super().run_options(node), *self.options]


def tcps(*rest):
    return subprocess.run(words(*rest), check=True, capture_output=True, text=True, timeout=SECONDS).stdout.splitlines()


def compare(testbed, carrier, forks, wanted, *rest):
    testbed.options = [carrier, *testbed.faults]
    testbed.set_variables("a", RDMAV_FORK_SAFE=forks)
    program = testbed.start("a", words(*rest))
    program.expect_success(SECONDS)
    found = [line for line in program.output().splitlines() if not line.startswith("verbatim: ")]
    for number, (ours, theirs) in enumerate(zip(found, wanted)):
        if ours != theirs:
            before = "\n".join(wanted[max(0, number - 60):number])
            raise Failure(f"{carrier}, RDMAV_FORK_SAFE={forks}: after\n{before}\nTCP says {theirs!r}, and this is {ours!r}")
    if len(found) != len(wanted):
        raise Failure(f"{carrier}: {len(found)} answers instead of {len(wanted)}")
    print(f"{carrier}, RDMAV_FORK_SAFE={forks}: {len(found)} answers are TCP's", flush=True)


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--faults", default="", help="as 'verbatim run --fault', such as delay=2ms: on the wire what is late shows")
    options = parser.parse_args()
    with Carrier(options) as testbed:
        testbed.faults = ("--fault", options.faults) if options.faults else ()
        plain = (testbed.address("a"), options.first, options.seeds)
        urgent = (*plain, "urgent")
        for carrier, rest in (("--rsockets", plain), ("--sdp", plain), ("--rsockets", urgent)):
            wanted = tcps(*rest)
            for forks in ("0", "1"):
                compare(testbed, carrier, forks, wanted, *rest)
        # An address that the node has not: TCP carries it.
        loopback = ("127.0.0.1", options.first, min(options.seeds, 3), "urgent")
        for carrier in ("--rsockets", "--sdp"):
            compare(testbed, carrier, "1", tcps(*loopback), *loopback)
    return 0


if __name__ == "__main__":
    sys.exit(main())
