#!/usr/bin/env python3
"""RDS between two nodes of this machine: round trips, messages in one direction, RDMA operations' requests, and the
brokers' processor time and memory for a peer; on the direct path and on the wire. Each round runs all of them; prints a
table for docs/benchmarks.md, with medians, the least and the greatest."""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "programs"))

from testbed import Testbed, wait_until  # noqa: E402 (found by the line above)

SECONDS = 600
SMALL = 1024


class Nodes(Testbed):
    def rds(self, command, node, *words):
        options = super().run_options(node)
        done = subprocess.run([f"{self.build}/bin/verbatim", "rds", command, *options, *words], env=self.environment(),
                              check=False, capture_output=True, text=True, timeout=SECONDS)
        return done.stdout

    def run_options(self, node):
        return [*super().run_options(node), "--rds"]

    def program(self, node, *words):
        return self.start(node, [f"{self.build}/bin/bench_rds_speed", *map(str, words)])

    def broker(self, node):
        return json.loads(self.rds("show", node, "--json"))["process"]

    def __exit__(self, *what):
        for node in ("a", "b"):
            self.rds("down", node)
        return super().__exit__(*what)


def processor_seconds(process):
    with open(f"/proc/{process}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_kib(process):
    with open(f"/proc/{process}/status", encoding="ascii") as file:
        return int(re.search(r"RssAnon:\s+(\d+)", file.read()).group(1))


def number(text, unit):
    return float(re.search(r"([\d.]+) " + unit, text).group(1))


def round_trips(nodes, count, size, how):
    a, b = nodes.address("a"), nodes.address("b")
    port = nodes.free_port()
    answers = nodes.program("a", "answer", a, port)
    wait_until(lambda: "answers" in answers.output(), 20, "the answering program")
    asks = nodes.program("b", "ask", b, a, port, count, size, how)
    asks.expect_success(SECONDS)
    answers.kill()
    return number(asks.output(), "us a round trip")


def one_way(nodes, count, size):
    """Messages a second; microseconds of processor time a message: receiver, sender, both brokers."""
    a, b = nodes.address("a"), nodes.address("b")
    port = nodes.free_port()
    takes = nodes.program("a", "take", a, port, count)
    wait_until(lambda: "takes" in takes.output(), 20, "the receiving program")
    brokers = [nodes.broker(node) for node in ("a", "b")]
    before = [processor_seconds(one) for one in brokers]
    gives = nodes.program("b", "give", b, a, port, count, size)
    gives.expect_success(SECONDS)
    takes.expect_success(SECONDS)
    used = sum(processor_seconds(one) - was for one, was in zip(brokers, before)) * 1e6 / count
    each = "us of processor time each"
    return (number(takes.output(), "messages a second"), number(takes.output(), each), number(gives.output(), each),
            used)


def memory_of_a_peer(nodes):
    """KiB of a broker that a peer with 1 MiB messages has added."""
    before = resident_kib(nodes.broker("a"))
    one_way(nodes, 20, 1 << 20)
    return resident_kib(nodes.broker("a")) - before


def measure(options, path, figures):
    options.path = path
    count = options.count if path == "auto" else options.count // 10
    with Nodes(options) as nodes:
        for node in ("a", "b"):
            nodes.rds("up", node)
        figures.setdefault((path, "broker's memory for a peer", "KiB"), []).append(memory_of_a_peer(nodes))
        for how, part in (("poll", 1), ("sleep", 10)):
            name = f"round trip of 1 KiB, both {how}"
            figures.setdefault((path, name, "us"), []).append(round_trips(nodes, count // part, SMALL, how))
        rate, takes, gives, brokers = one_way(nodes, count, SMALL)
        for name, unit, value in (("1 KiB one way", "messages/s", rate),
                                  ("its receiver's processor time", "us/message", takes),
                                  ("its sender's", "us/message", gives), ("both brokers'", "us/message", brokers)):
            figures.setdefault((path, name, unit), []).append(value)
        figures.setdefault((path, "1 MiB one way", "messages/s"), []).append(one_way(nodes, count // 500, 1 << 20)[0])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=500_000, help="messages of a measurement on the direct path")
    parser.add_argument("--path", choices=("auto", "wire", "both"), default="both")
    options = parser.parse_args()
    options.preload = ""
    paths = ("auto", "wire") if options.path == "both" else (options.path,)
    figures = {}
    for _ in range(options.rounds):
        for path in paths:
            measure(options, path, figures)
    print("| path | what | median | least to greatest |\n|---|---|---|---|")
    for (path, name, unit), values in figures.items():
        named = "direct" if path == "auto" else path
        print(f"| {named} | {name} | {statistics.median(values):.4g} {unit} | {min(values):.4g} to {max(values):.4g} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
