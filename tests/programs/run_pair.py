#!/usr/bin/env python3
"""Runs one case of cases.py: the program as server on node a and as client on node b."""

import re
import sys

import cases
from testbed import Failure, Testbed, option_parser


def rows_of_figures(case, output):
    """Returns the number of result lines that the client has printed."""
    if case.program.startswith("ibv_"):
        return len(re.findall(r"Mbit/sec|usec/iter", output))
    # "inf" if perftest could not measure the CPU's clock on a busy machine: the transfers were
    # done.
    return len(re.findall(r"^ *\d+ +\d+ +([\d.]+|inf) ", output, re.MULTILINE))


def run(case, options):
    with Testbed(options) as testbed:
        port = testbed.free_port()
        argv = [case.program, "-p", str(port), *case.arguments]
        server = testbed.start_server("a", argv, port)
        client = testbed.start("b", [*argv, testbed.address("a")])
        client.expect_success(case.seconds)
        server.expect_success(case.seconds)
        rows = rows_of_figures(case, client.output())
        if rows != case.rows:
            raise Failure(f"the client printed {rows} lines of figures, expected {case.rows}")


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--list", action="store_true",
                        help="print NAME SET SECONDS PATH... of each case, for CMake")
    parser.add_argument("case", nargs="?", help="name of a case")
    options = parser.parse_args()
    if options.list:
        for case in cases.all_cases():
            print(case.name, "long" if case.is_long else "programs", case.seconds, *case.paths)
        return 0
    for case in cases.all_cases():
        if case.name == options.case:
            run(case, options)
            return 0
    print(f"no case is named {options.case}; --list shows them", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
