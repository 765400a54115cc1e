#!/usr/bin/env python3
"""The shell commands of a CI job's file, in order: what stands below `run: |` or `- |`, less its indentation."""

import sys
import textwrap

OPENERS = ("run: |", "- |")


def steps(lines):
    """Returns each block of commands, as text."""
    block, indent = None, 0
    for line in [*lines, "end:"]:
        depth = len(line) - len(line.lstrip())
        if block is not None and line.strip() and depth <= indent:
            yield textwrap.dedent("\n".join(block)) + "\n"
            block = None
        if block is not None:
            block.append(line)
        elif line.strip() in OPENERS:
            block, indent = [], depth


def shell(step):
    """Runs the step as the services do, until its first failure. Programs get a new network, in which no other test
    has their addresses."""
    alone = "" if "apt-get" in step else "unshare --net -- sh -c 'ip link set lo up && exec \"$@\"' sh "
    return f"{alone}bash -e <<'STEP' || exit 1\n{step}STEP"


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as job:
        found = list(steps(job.read().splitlines()))
    if not found:
        sys.exit(f"{sys.argv[1]} has no commands")
    print("\n".join(map(shell, found)))
