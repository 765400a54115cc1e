#!/usr/bin/env python3
"""Debian's dpdk-test-flow-perf makes and deletes a million rules, and ends with its own success. Takes the build's folder."""

import os
import re
import subprocess
import sys
import tempfile

import pmd

RULES = 1000000


def main():
    build = os.path.abspath(sys.argv[1])
    status = pmd.inside(build, os.path.abspath(__file__))
    if status is not None:
        return status
    with tempfile.TemporaryDirectory() as folder:
        card = pmd.Card(build, folder, "--vfs", "1", "--rules", str(RULES))
        done = subprocess.run(
            ["dpdk-test-flow-perf", "-l", "0,1", *pmd.eal(build, folder, 256), "--", "--transfer", "--ether", "--ipv4",
             "--udp", "--port-id=1", f"--rules-count={RULES}", "--rules-batch=100000", "--deletion-rate", "--portmask=0x1"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        card.command("down")
    print("\n".join(re.findall(r".*(?:insertion|deletion) rate.*|.*First flow installed.*", done.stdout)))
    if done.returncode != 0 or "Bye" not in done.stdout:
        print(done.stdout)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
