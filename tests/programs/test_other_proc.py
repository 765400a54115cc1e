#!/usr/bin/env python3
"""Programs for which /proc says nothing, or speaks of another pid namespace: no lock is taken from a thread or a
process that lives, and one of a killed process is free for the others."""

import os
import sys

from testbed import SKIPPED, Testbed, option_parser
from namespaces import enter_user_namespace

SECONDS_MAX = 140


def unused_process_id():
    """Returns a number that no process here has: a look-up of a process in another namespace by it finds none."""
    return next(number for number in range(20000, 30000) if not os.path.exists(f"/proc/{number}"))


def places(program):
    """Returns, for each environment, the command that starts the program; its arguments follow."""
    next_id = f"echo {unused_process_id() - 1} > /proc/sys/kernel/ns_last_pid"
    found = {"another pid namespace's /proc":
             ["unshare", "--pid", "--fork", "--kill-child", "sh", "-c", f'{next_id}; "$@"; exit $?', "sh"]}
    if program != "kill_steps":  # It reads /proc itself.
        found["without /proc"] = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
    return found


def main():
    parser = option_parser(__doc__)
    parser.add_argument("program", choices=["shared_posters", "kill_steps"])
    parser.add_argument("argument", help="of the program: receives of each poster, or points of each operation")
    options = parser.parse_args()
    enter_user_namespace()
    for place, enter in places(options.program).items():
        with Testbed(options) as testbed:
            run = testbed.start("a", [*enter, f"{testbed.build}/bin/{options.program}", options.argument])
            if run.wait(SECONDS_MAX) == SKIPPED:
                print(run.output())
                return SKIPPED
            run.expect_success(SECONDS_MAX)
        print(f"passed: {options.program}, {place}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
