#!/usr/bin/env python3
"""VERBATIM_BUSY_POLL: a program that waits for events looks for packets without sleeping."""

import sys

from testbed import SKIPPED, Testbed, are_installed, cpu_seconds, option_parser, wait_until

SECONDS = 20
BUSY_SECONDS = 1
SPUN_SECONDS = BUSY_SECONDS / 10  # The minimum, also on a machine that is in use.


def main():
    options = option_parser(__doc__).parse_args()
    if not are_installed("rping"):
        return SKIPPED
    with Testbed(options) as testbed:
        port = testbed.free_port()
        busy = ["env", f"VERBATIM_BUSY_POLL={BUSY_SECONDS * 1_000_000}"]
        address = ["-a", testbed.address("a"), "-p", str(port)]
        server = testbed.start("a", [*busy, "rping", "-s", "-P", *address])
        wait_until(lambda: any(program.get("ports") for program in testbed.status("a")), SECONDS, "the server")
        client = testbed.start("b", ["rping", "-c", *address, "-C", "10"])
        client.expect_success(SECONDS)
        before = cpu_seconds(server.process.pid)
        wait_until(lambda: cpu_seconds(server.process.pid) - before > SPUN_SECONDS, SECONDS,
                   "the server to spin")
        server.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
