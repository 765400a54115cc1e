#!/usr/bin/env python3
"""Programs for which /proc says nothing, or speaks of another pid namespace: no lock is taken from a thread or a
process that lives, and one of a killed process is free for the others."""

import os
import sys

from lab import SKIPPED, Lab, option_parser
from namespaces import enter_user_namespace

SECONDS_MAX = 140


def unused_process_id():
    """Of no process here: what looks up another namespace's process by it finds none."""
    return next(number for number in range(20000, 30000) if not os.path.exists(f"/proc/{number}"))


def places(receives):
    """How programs are started, their words following, and which."""
    posters = ["shared_posters", receives]
    next_id = f"echo {unused_process_id() - 1} > /proc/sys/kernel/ns_last_pid"
    return {
        "without /proc": (
            ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"], [posters]),
        "another pid namespace's /proc": (
            ["unshare", "--pid", "--fork", "--kill-child", "sh", "-c", f'{next_id}; "$@"; exit $?', "sh"],
            [posters, ["kill_steps", "1"]]),
    }


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--receives", default="50000", help="of each of the posters")
    options = parser.parse_args()
    enter_user_namespace()
    for place, (enter, programs) in places(options.receives).items():
        for program, *words in programs:
            with Lab(options) as lab:
                run = lab.start("a", [*enter, f"{lab.build}/bin/{program}", *words])
                if run.wait(SECONDS_MAX) != SKIPPED:
                    run.expect_success(SECONDS_MAX)
            print(f"passed: {program}, {place}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
