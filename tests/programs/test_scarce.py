#!/usr/bin/env python3
"""Threads, descriptors or address space run out at each place where a program asks for some (scarce.cpp): calls fail with an
errno, no program is ended, and all can be had once there is enough again."""

import os
import signal
import subprocess
import sys

from testbed import Testbed, option_parser, wait_until

SECONDS_MAX = 170


def rejoins_when_there_are_threads_again(testbed):
    program = testbed.start("a", [f"{testbed.build}/bin/scarce", "rejoin"], stdin=subprocess.PIPE)
    wait_until(lambda: program.ended() or "without threads" in program.output(), 20, "the program to have joined")
    agents = testbed.agents()
    for agent in agents:
        os.kill(agent, signal.SIGKILL)
    wait_until(lambda: program.ended() or "with threads" in program.output(), 20, "it to try again")
    wait_until(lambda: program.ended() or testbed.status("a"), 20, "it to have rejoined")
    program.process.stdin.close()
    program.expect_success(20)
    print("passed: rejoins")


def main():
    options = option_parser(__doc__).parse_args()
    for what in ("address-space", "threads", "descriptors"):
        with Testbed(options) as testbed:
            program = testbed.start("a", [f"{testbed.build}/bin/scarce", what])
            program.expect_success(SECONDS_MAX)
            print(f"passed: {what}\n{program.output()}", flush=True)
    with Testbed(options) as testbed:
        rejoins_when_there_are_threads_again(testbed)


if __name__ == "__main__":
    sys.exit(main())
