#!/usr/bin/env python3
"""How fast connections are set up and torn down through rdma_cm: `cmtime` between two nodes."""

import json
import os
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests" / "programs"))
from testbed import Failure, Testbed, option_parser, wait_until  # pylint: disable=wrong-import-position

SECONDS = 120


def listens(testbed):
    status = subprocess.run([f"{testbed.build}/bin/verbatim", "status", "--json"], check=False,
                            env=testbed.environment(), capture_output=True, text=True, timeout=30)
    nodes = json.loads(status.stdout) if status.returncode == 0 else []
    return any(bound["listens"] for node in nodes for program in node["programs"]
               for bound in program.get("ports", []))


def measure(options):
    """Returns the client's table: step to microseconds per connection."""
    with Testbed(options) as testbed:
        count = str(options.connections)
        server = testbed.start("a", ["cmtime", "-b", testbed.address("a"), "-c", count])
        wait_until(lambda: server.ended() or listens(testbed), 20, "cmtime to listen")
        began = time.monotonic()
        client = testbed.start("b", ["cmtime", "-s", testbed.address("a"), "-c", count])
        client.expect_success(SECONDS)
        elapsed = time.monotonic() - began
        if server.ended():
            raise Failure("the server ended, which serves for ever")
        server.kill()
        steps = {}
        for line in client.output().splitlines():
            name, colon, figures = line.partition(":")
            fields = figures.split()
            if colon and len(fields) == 4:
                steps[name.strip()] = float(fields[3])
        if "connect" not in steps:
            raise Failure(f"cmtime printed no table:\n{client.output()}")
        return steps, elapsed


def main():
    parser = option_parser(__doc__)
    parser.set_defaults(build=os.environ.get("VERBATIM_BUILD", HERE.parent / "build"))
    parser.add_argument("--connections", type=int, default=1000)
    options = parser.parse_args()
    steps, elapsed = measure(options)
    print(f"{options.connections} connections, {elapsed:.2f} s from start to end of the client")
    print(f"{'step':<16}{'us a connection':>18}")
    for name, value in steps.items():
        print(f"{name:<16}{value:>18.1f}")


if __name__ == "__main__":
    main()
