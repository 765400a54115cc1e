#!/usr/bin/env python3
"""A program with many queue pairs open and no traffic uses no processor; and what its queue pairs cost."""

import re
import subprocess
import sys
import time

from testbed import Failure, Testbed, cpu_seconds, option_parser, wait_until

SECONDS_WATCHED = 2
CPU_MAX = 0.01  # Of one CPU.
KIB_PER_QUEUE_PAIR_MAX = 64
BUSY_POLL_MICROSECONDS = 1000  # After the last packet, of which an idle program has none.


def has_connected(program):
    if program.ended():
        raise Failure(f"{program.name} ended early")
    return program.output().endswith("ready\n")


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--count", type=int, default=1000, help="queue pairs")
    options = parser.parse_args()
    with Testbed(options) as testbed:
        program = testbed.start("a", ["env", f"VERBATIM_BUSY_POLL={BUSY_POLL_MICROSECONDS}",
                                  f"{testbed.build}/bin/queue_pairs", str(options.count)],
                            stdin=subprocess.PIPE)
        wait_until(lambda: has_connected(program), 60, "the queue pairs to be connected")
        pids = [program.process.pid, *testbed.agents()]
        before = [cpu_seconds(pid) for pid in pids]
        started = time.monotonic()
        time.sleep(SECONDS_WATCHED)  # The measurement itself.
        elapsed = time.monotonic() - started
        for pid, used_before in zip(pids, before):
            share = (cpu_seconds(pid) - used_before) / elapsed
            print(f"process {pid}: {share:.2%} of a processor while idle")
            if share > CPU_MAX:
                raise Failure(f"process {pid} uses {share:.1%} of a processor while idle")
        print(program.output())
        cost = float(re.search(r"used: ([\d.]+)", program.output()).group(1))
        # A sanitizer's allocator needs more memory.
        if cost > KIB_PER_QUEUE_PAIR_MAX and not options.preload:
            raise Failure(f"a queue pair costs {cost} KiB")
        program.process.stdin.close()
        program.expect_success(30)


if __name__ == "__main__":
    sys.exit(main())
