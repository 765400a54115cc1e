#!/usr/bin/env python3
"""LNet's self-test between two of our nodes: bulks of 1 MiB and pings, on the direct path; and what a peer adds to a
node's memory. Prints a table for docs/benchmarks.md, with medians, the least and the greatest."""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "programs"))

from testbed import Testbed, cpu_seconds  # noqa: E402 (found by the line above)

BULK = 1 << 20


class Nodes(Testbed):
    def lnet(self, command, node, *words):
        return subprocess.run([f"{self.build}/bin/verbatim", "lnet", command, *self.run_options(node), *words], check=True,
                              env=self.environment(), capture_output=True, text=True, timeout=300).stdout

    def run_options(self, node):
        return ["--node", node, "--address", self.address(node)]

    def process(self, node):
        return json.loads(self.lnet("show", node, "--json"))["process"]

    def nid(self, node):
        return f"{self.address(node)}@o2ib"


def resident_kib(process):
    with open(f"/proc/{process}/status", encoding="ascii") as file:
        return sum(int(number) for number in re.findall(r"Rss(?:Anon|Shmem):\s+(\d+)", file.read()))


def self_test(nodes, count, *words):
    """Requests a second; microseconds of processor time a request, of both nodes."""
    processes = [nodes.process(node) for node in ("a", "b")]
    before = sum(map(cpu_seconds, processes))
    shown = nodes.lnet("test", "a", "--requests", str(count), *words, nodes.nid("b"))
    used = sum(map(cpu_seconds, processes)) - before
    seconds = float(re.search(r"([\d.]+) s", shown)[1])
    return count / seconds, 1e6 * used / count


def measure(options, figures):
    with Nodes(options) as nodes:
        try:
            for node in ("a", "b"):
                nodes.lnet("up", node)
            before = resident_kib(nodes.process("b"))
            nodes.lnet("ping", "a", nodes.nid("b"))
            figures.setdefault("a peer's memory, KiB", []).append(resident_kib(nodes.process("b")) - before)
            for way in ("--read", "--write"):
                words = (way, "--bytes", str(BULK))
                self_test(nodes, options.bulks // 10, *words)  # The buffers are touched once.
                rate, used = self_test(nodes, options.bulks, *words)
                figures.setdefault(f"1 MiB {way[2:]}s, GB/s", []).append(rate * BULK / 1e9)
                figures.setdefault(f"1 MiB {way[2:]}s, us of processor time each, both nodes", []).append(used)
            rate, used = self_test(nodes, 10 * options.bulks)
            figures.setdefault("pings of the self-test a second", []).append(rate)
        finally:
            for node in ("a", "b"):
                nodes.lnet("down", node)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bulks", type=int, default=4000, help="of a measurement")
    options = parser.parse_args()
    options.preload, options.path = "", "auto"
    figures = {}
    for _ in range(options.rounds):
        measure(options, figures)
    print("| LNet, direct path | median | least to greatest |\n|---|---|---|")
    for name, values in figures.items():
        print(f"| {name} | {statistics.median(values):.4g} | {min(values):.4g} to {max(values):.4g} |")


if __name__ == "__main__":
    main()
