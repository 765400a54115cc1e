#!/usr/bin/env python3
"""Runs one program alone on a node; it must end with status 0."""

import argparse
import sys

from lab import Lab

SECONDS_MAX = 50


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--preload", default="")
    parser.add_argument("program", nargs="+")
    options = parser.parse_args()
    with Lab(options.build, options.preload) as lab:
        lab.start("a", options.program).expect_success(SECONDS_MAX)


if __name__ == "__main__":
    sys.exit(main())
