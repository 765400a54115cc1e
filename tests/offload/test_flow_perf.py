#!/usr/bin/env python3
"""Debian's dpdk-test-flow-perf makes and deletes a million rules, and ends with its own success. Takes the build's folder."""

import json
import os
import re
import resource
import subprocess
import sys
import tempfile

import pmd

RULES = 1000000


def processor_seconds(process):
    with open(f"/proc/{process}/schedstat", encoding="utf-8") as file:
        return int(file.read().split()[0]) / 1e9


def run(build, folder, rules):
    """Returns what it says, whether it ends with success, and its processor time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        ["dpdk-test-flow-perf", "-l", "0,1", *pmd.eal(build, folder, 256), "--", "--transfer", "--ether", "--ipv4",
         "--udp", "--port-id=1", f"--rules-count={rules}", "--rules-batch=100000", "--deletion-rate", "--portmask=0x1"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return done.stdout, done.returncode == 0 and "Bye" in done.stdout, took


def main():
    build = os.path.abspath(sys.argv[1])
    status = pmd.inside(build, os.path.abspath(__file__))
    if status is not None:
        return status
    with tempfile.TemporaryDirectory() as folder:
        card = pmd.Card(build, folder, "--vfs", "1", "--rules", str(RULES))
        process = json.loads(card.command("show", "--json"))["process"]
        _, few_end_well, start = run(build, folder, 100000)
        before = processor_seconds(process)
        said, ends_well, took = run(build, folder, RULES)
        of_card = processor_seconds(process) - before
        card.command("down")
    print("\n".join(re.findall(r".*(?:insertion|deletion) rate.*|.*First flow installed.*", said)))
    # A rule in and out again; the start is what a tenth of the rules does not explain.
    print(f"driver_us {(took - start) / (0.9 * RULES) * 1e6:.2f}\ncard_us {of_card / RULES * 1e6:.2f}")
    if not few_end_well or not ends_well:
        print(said)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
