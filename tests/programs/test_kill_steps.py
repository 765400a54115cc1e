#!/usr/bin/env python3
"""Programs are killed at each step of each operation of the direct path (kill_steps.cpp), and none of them leaves
anything behind: no program at the agent, no descriptor there or at the survivors, no process."""

import os
import subprocess
import sys

from testbed import SKIPPED, Failure, Testbed, option_parser, wait_until

SETTLED = "kill_steps: settled"
SURVIVORS = 2


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def mapped_arenas(pid):
    """Returns the shared memory of Verbatim that the process has mapped, its own and that of others."""
    with open(f"/proc/{pid}/maps", encoding="ascii", errors="replace") as maps:
        return len({line.split()[4] for line in maps if "memfd:" in line})


def check_nothing_is_left(testbed):
    programs = testbed.status("a")
    if len(programs) != SURVIVORS:
        raise Failure(f"{len(programs)} programs of the agent are left: {programs}")
    # In addition to its own: those of the last few victims, which are removed when the next one
    # connects.
    few = 8
    for program in programs:
        arenas = mapped_arenas(program["pid"])
        if arenas > few:
            raise Failure(f"a survivor still maps {arenas} arenas and memory files")
        if descriptors(program["pid"]) > 64:
            raise Failure(f"a survivor has {descriptors(program['pid'])} descriptors")
    for agent in testbed.agents():
        if descriptors(agent) > 128:
            raise Failure(f"the agent has {descriptors(agent)} descriptors")


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--seconds", type=int, default=150, help="it may take, at most")
    parser.add_argument("--points", default="6", help="of each operation; 0: every instruction")
    options = parser.parse_args()
    with Testbed(options) as testbed:
        # memcpy's `rep movsb` would stop at each byte.
        threshold = "GLIBC_TUNABLES=glibc.cpu.x86_rep_movsb_threshold=1000000000"
        program = testbed.start("a", ["env", threshold, f"{testbed.build}/bin/kill_steps", options.points],
                            stdin=subprocess.PIPE)
        wait_until(lambda: program.ended() or SETTLED in program.output(), options.seconds,
                   "the last victim")
        if program.ended() and program.process.returncode == SKIPPED:
            print(program.output())
            sys.exit(SKIPPED)
        if not program.ended():
            wait_until(lambda: len(testbed.status("a")) == SURVIVORS, 5, "the agent to notice deaths")
            check_nothing_is_left(testbed)
            program.process.stdin.close()
        program.expect_success(10)
        print(program.output())


if __name__ == "__main__":
    sys.exit(main())
