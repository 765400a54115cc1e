#!/usr/bin/env python3
"""Memory, threads or descriptors run out at each place where a program asks for some (scarce.cpp): calls fail with an
errno, no program is ended, and all can be had once there is enough again."""

import os
import signal
import subprocess
import sys

from lab import Lab, option_parser, wait_until

SECONDS_MAX = 170


def rejoins_when_there_are_threads_again(lab):
    program = lab.start("a", [f"{lab.build}/bin/scarce", "rejoin"], stdin=subprocess.PIPE)
    wait_until(lambda: program.ended() or "without threads" in program.output(), 20, "the program to have joined")
    agents = lab.agents()
    for agent in agents:
        os.kill(agent, signal.SIGKILL)
    wait_until(lambda: program.ended() or "with threads" in program.output(), 20, "it to try again")
    wait_until(lambda: program.ended() or lab.status("a"), 20, "it to have rejoined")
    program.process.stdin.close()
    program.expect_success(20)
    print("passed: rejoins")


def main():
    options = option_parser(__doc__).parse_args()
    for what in ("address-space", "threads", "descriptors", "memory"):
        with Lab(options) as lab:
            program = lab.start("a", [f"{lab.build}/bin/scarce", what])
            program.expect_success(SECONDS_MAX)
            print(f"passed: {what}\n{program.output()}", flush=True)
    with Lab(options) as lab:
        rejoins_when_there_are_threads_again(lab)


if __name__ == "__main__":
    sys.exit(main())
