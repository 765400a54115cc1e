#!/usr/bin/env python3
"""Runs one program alone on a node; it must end with status 0."""

import sys

from testbed import Testbed, option_parser


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--seconds", type=int, default=50, help="it may take, at most")
    parser.add_argument("--protocol", help="of the node")
    parser.add_argument("program", nargs="+")
    options = parser.parse_args()
    with Testbed(options) as testbed:
        if options.protocol:
            testbed.set_variables("a", VERBATIM_PROTOCOL=options.protocol)
        testbed.start("a", options.program).expect_success(options.seconds)


if __name__ == "__main__":
    sys.exit(main())
