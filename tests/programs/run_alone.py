#!/usr/bin/env python3
"""Runs one program alone on a node; it must end with status 0."""

import sys

from lab import Lab, option_parser

SECONDS_MAX = 50


def main():
    parser = option_parser(__doc__)
    parser.add_argument("program", nargs="+")
    options = parser.parse_args()
    with Lab(options) as lab:
        lab.start("a", options.program).expect_success(SECONDS_MAX)


if __name__ == "__main__":
    sys.exit(main())
