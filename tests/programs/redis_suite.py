#!/usr/bin/env python3
"""Runs units of Redis's own test suite over rsockets or SDP, client and servers, and beside them over TCP: what fails there
alone is printed, and the status is 1. The suite is not here: `--suite` is an unpacked source package (apt-get source redis).

    redis_suite.py --suite ~/redis-7.0.15 --carrier sdp unit/protocol unit/type/list"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from testbed import Testbed  # noqa: E402 (found by the line above)

UNITS = ["unit/protocol", "unit/other", "unit/pubsub", "unit/type/string", "unit/type/list", "unit/type/set", "unit/type/zset",
         "unit/type/hash", "unit/type/stream", "integration/replication"]
SECONDS = int(os.environ.get("REDIS_SUITE_SECONDS", "1200"))
PROGRAMS = {"redis-server": "redis-check-rdb", "redis-cli": "redis-cli", "redis-benchmark": "redis-benchmark",
            "redis-check-rdb": "redis-check-rdb", "redis-check-aof": "redis-check-rdb"}  # In Debian some are one program.


def prepare(suite, folder):
    """The suite's files in a folder of its own, with Debian's programs where it looks for them."""
    shutil.copytree(f"{suite}/tests", f"{folder}/tests", symlinks=True)
    for name in ("redis.conf", "utils"):
        os.symlink(os.path.join(os.path.abspath(suite), name), f"{folder}/{name}")
    os.mkdir(f"{folder}/src")
    for name, program in PROGRAMS.items():
        os.symlink(f"/usr/bin/{program}", f"{folder}/src/{name}")
    for name in os.listdir(f"{suite}/src"):
        if name.endswith((".c", ".h", ".json")) or name == "commands":
            os.symlink(os.path.join(os.path.abspath(suite), "src", name), f"{folder}/src/{name}")


def run(testbed, suite, carrier, unit, port):
    """Returns the names of the tests that passed, and of those that did not."""
    with tempfile.TemporaryDirectory(prefix="redis-suite.", dir="/tmp") as folder:
        prepare(suite, folder)
        words = ["tclsh", "tests/test_helper.tcl", "--clients", "1", "--baseport", str(port), "--portcount", "400", "--single", unit]
        if carrier:
            words = [f"{testbed.build}/bin/verbatim", "run", f"--{carrier}", *testbed.run_options("a"), "--", *words]
        try:
            done = subprocess.run(words, cwd=folder, env=testbed.environment(), capture_output=True, text=True, timeout=SECONDS,
                                  check=False)
            text = done.stdout + done.stderr
        except subprocess.TimeoutExpired as late:
            text = (late.stdout or b"").decode(errors="replace") + "\n[exception]: it did not end\n"
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)
    good = set(re.findall(r"^\[ok\]: (.*?) \(\d+ ms\)$", text, re.MULTILINE))
    bad = set(re.findall(r"^\[(?:err|exception)\]: (.*)$", text, re.MULTILINE))
    return good, bad, text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--suite", required=True)
    parser.add_argument("--carrier", default="rsockets", choices=("rsockets", "sdp"))
    parser.add_argument("--path", default="", choices=("", "auto", "wire"))
    parser.add_argument("--logs", help="a folder for the suite's own output")
    parser.add_argument("units", nargs="*", default=UNITS)
    options = parser.parse_args()
    options.preload = ""
    ours = 0
    with Testbed(options) as testbed:
        testbed.set_addresses("a", "127.0.0.1")  # Where the suite's servers listen.
        for unit in options.units:
            results = {}
            for way in ("", options.carrier):
                results[way] = run(testbed, options.suite, way, unit, testbed.free_port())
                if options.logs:
                    with open(f"{options.logs}/{unit.replace('/', '.')}-{way or 'tcp'}", "w", encoding="utf-8") as log:
                        log.write(results[way][2])
            (good, bad, _), (our_good, our_bad, _) = results[""], results[options.carrier]
            missing = sorted(good - our_good)
            print(f"{unit}: TCP {len(good)} ok, {len(bad)} not; {options.carrier} {len(our_good)} ok, {len(our_bad)} not", flush=True)
            for name in sorted(our_bad - bad) + [f"not reached: {name}" for name in missing[:10]]:
                print("   ", name, flush=True)
            ours += len(missing)
    return 1 if ours else 0


if __name__ == "__main__":
    sys.exit(main())
