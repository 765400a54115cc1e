#!/usr/bin/env python3
"""Measures InfiniBand fabrics: Debian's perftest between hosts, beside the wire path, and opensm, beside Debian's ibsim,
all in turn. Prints tables; --write keeps them in docs/benchmarks.md."""

import argparse
import os
import sys
import textwrap

sys.dont_write_bytecode = True

from measure import ROOT, Bench, Failure  # noqa: E402  (no bytecode beside the sources)
from page import machine, row_text, task_text, versions  # noqa: E402
from rows import DIRECT, KIB, WIRE, Row, at_least, at_most, verbs  # noqa: E402

for folder in ("tests/fabric", "tests/compat"):
    sys.path.insert(0, str(ROOT / folder))

import report  # noqa: E402
from fabric_managers import manager_table, size_table  # noqa: E402
from fabricbed import CHAIN, FabricBed  # noqa: E402
from testbed import Testbed  # noqa: E402

COLUMNS = 110  # Of a line in a document.
HEADING = "\n## Across the switches of an InfiniBand fabric\n"
PROVENANCE = ("Written by `bench/fabric.py --write`. Machine: {machine}. Medians of {rounds} rounds (least to greatest). "
              "Versions: {versions}.")
HEAD = """
Programs on two hosts, both polling; every packet crosses the switches, whose tables `opensm` has filled.
Links are `--rate unlimited` if the row names no rate. *wire* is RoCE v2 in UDP over loopback, in the same
round. Two programs of *one host* take the direct path, as RoCE's *direct* between two nodes of one machine.

| what | Verbatim | limit or peer | ratio | aim | met |
|---|---|---|---|---|---|
"""

ONE, THREE, HOST = "one switch", "three switches", "one host"
# Of a 4x link: GB/s of its data after coding. A packet of 4,096 bytes has 26 of headers and CRCs.
SPEEDS = {"4xSDR": 1.0, "4xDDR": 2.0, "4xQDR": 4.0}
PAYLOAD = 4096 / (4096 + 26)


def paced_switch(rate):
    return f"one switch, {rate} links"


def paced(rate):
    most = SPEEDS[rate] * PAYLOAD
    return Row(verbs("ib_write_bw", paced_switch(rate), "GB/s", 64 * KIB),
               aim=at_least(round(0.98 * most, 3), of_ratio=False),
               published=f"its rate less headers: {most:.3f} GB/s")


BANDWIDTH, LATENCY = (verbs("ib_write_bw", ONE, "GB/s", 64 * KIB), verbs("ib_send_lat", ONE, size=8))
ROWS = (
    Row(BANDWIDTH, aim=at_least(8, of_ratio=False)),
    Row(BANDWIDTH, verbs("ib_write_bw", WIRE, "GB/s", 64 * KIB)),
    Row(LATENCY, verbs("ib_send_lat", WIRE, size=8), at_most(0.3)),
    Row(verbs("ib_send_lat", THREE, size=8), LATENCY, at_most(1.5)),
    Row(verbs("ib_write_bw", THREE, "GB/s", 64 * KIB), BANDWIDTH, at_least(0.67)),
    *(paced(rate) for rate in SPEEDS),
    Row(verbs("ib_write_bw", HOST, "GB/s", 64 * KIB), verbs("ib_write_bw", DIRECT, "GB/s", 64 * KIB), at_least(0.95)),
    Row(verbs("ib_write_lat", HOST, size=8), verbs("ib_write_lat", DIRECT, size=8), at_most(1.05)),
    Row(verbs("ib_send_lat", HOST, size=8), verbs("ib_send_lat", DIRECT, size=8), at_most(1.05)),
)


def say(text):
    print(f"fabric: {text}", file=sys.stderr, flush=True)


class FabricBench(Bench):
    """Tasks of perftest run on the hosts H1 and H2 of the fabric that `over` names, or both on H1."""

    def __init__(self, testbed, seconds, beds):
        super().__init__(testbed, seconds)
        self.beds = beds

    def _pair(self, over, argv, port):
        bed, client_host = self.beds.get(over), "H2"
        if over == HOST:
            bed, client_host = self.beds[ONE], "H1"
        if bed is None:
            return super()._pair(over, argv, port)
        server = bed.start("H1", *argv)
        try:
            bed.wait_until_listening(server, port)
            return bed.run(client_host, *argv, "127.0.0.1")
        finally:
            bed.end(server)


def one_switch(bed, *options):
    return bed.verbatim("fabric", "generate", "fat-tree", "--hosts", "2", *options)


def start(bed, net, pace):
    bed.up(net, "--manager", "opensm", "--rate", pace)


def measure_rows(options, rounds, seconds):
    wanted = dict.fromkeys(task for row in ROWS for task in (row.ours, row.peer) if task is not None)
    figures = {task: [] for task in wanted}
    beds = {over: FabricBed(options) for over in (ONE, THREE, *map(paced_switch, SPEEDS))}
    with Testbed(options) as testbed:
        try:
            start(beds[ONE], one_switch(beds[ONE]), "unlimited")
            start(beds[THREE], CHAIN, "unlimited")
            for rate in SPEEDS:
                bed = beds[paced_switch(rate)]
                start(bed, one_switch(bed, "--rate", rate), "link")
            bench = FabricBench(testbed, seconds, beds)
            for number in range(1, rounds + 1):
                for task, values in figures.items():
                    values.append(figure_of(bench, task))
                    say(f"round {number} of {rounds}: {task_text(task)}: {values[-1]}")
        finally:
            for bed in beds.values():
                bed.__exit__(None, None, None)
    return figures


def figure_of(bench, task):
    try:
        return bench.measure(task)
    except Failure as failure:
        say(f"{task_text(task)}: no figure: {failure}")
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=os.environ.get("VERBATIM_BUILD", ROOT / "build"), help="build folder")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement, about")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    parser.set_defaults(preload="", path="")
    options = parser.parse_args()
    figures = measure_rows(options, options.rounds, options.seconds)
    provenance = PROVENANCE.format(machine=machine(), rounds=options.rounds, versions=versions())
    head = textwrap.fill(provenance, COLUMNS) + HEAD
    text = head + "\n".join([*(row_text(row, figures) for row in ROWS), "", *manager_table(options, options.rounds, say), "",
                             *size_table(options, say), ""])
    print(text)
    if options.write:
        report.write_section(ROOT / "docs" / "benchmarks.md", HEADING, HEADING + text)


if __name__ == "__main__":
    main()
