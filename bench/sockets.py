#!/usr/bin/env python3
"""Socket programs over rsockets on the direct path, beside TCP over loopback: iperf3 and redis-benchmark, unmodified.
Each round runs all of them; prints medians, with the least and the greatest, and of the ratios of each round. Needs
Debian's iperf3 and redis-tools."""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "programs"))

from testbed import Testbed, wait_until, listens  # noqa: E402 (found by the line above)

REDIS = "/usr/bin/redis-check-rdb"  # In Debian the server is this program by another name.


class Place:
    """Starts programs over rsockets or over TCP."""

    def __init__(self, testbed, way):
        self.testbed = testbed
        self.way = way

    def words(self, node, argv):
        if self.way == "tcp":
            return argv
        library = f"{self.testbed.build}/lib/rsocket/librspreload.so.1"
        return [f"{self.testbed.build}/bin/verbatim", "run", *self.testbed.run_options(node), "--", "env",
                f"LD_PRELOAD={library}", *argv]

    def start_server(self, argv, port):
        server = subprocess.Popen(self.words("a", argv), env=self.testbed.environment(), stdout=subprocess.DEVNULL)
        has_begun = (lambda: listens(server.pid, port)) if self.way == "tcp" else lambda: self.testbed.bound_ports("a")
        wait_until(has_begun, 20, argv[0])
        return server

    def output(self, argv):
        return subprocess.run(self.words("b", argv), env=self.testbed.environment(), capture_output=True, text=True,
                              check=True, timeout=120).stdout


def iperf3(place, streams):
    """Returns GB/s."""
    port = place.testbed.free_port()
    address = place.testbed.address("a")
    server = place.start_server(["iperf3", "-s", "-1", "-B", address, "-p", str(port)], port)
    words = ["iperf3", "-c", address, "-p", str(port), "-t", "2", "-P", str(streams), "-J"]
    answer = json.loads(place.output(words))
    server.wait(20)
    return answer["end"]["sum_received"]["bits_per_second"] / 8e9


def redis(place):
    """Returns thousands of requests a second for each kind."""
    port = place.testbed.free_port()
    address = place.testbed.address("a")
    words = f"exec -a redis-server {REDIS} --bind {address} --port {port} --save '' --protected-mode no"
    server = place.start_server(["bash", "-c", words], port)
    text = place.output(["redis-benchmark", "-h", address, "-p", str(port), "-n", "100000", "-c", "50",
                         "-t", "set,get", "-q", "--csv"])
    server.send_signal(signal.SIGTERM)
    server.wait(20)
    rows = [line.replace('"', "").split(",") for line in text.splitlines() if line.startswith(('"SET', '"GET'))]
    return {row[0]: float(row[1]) / 1000 for row in rows}


def text_of(values):
    return f"{statistics.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    options.preload, options.path = "", "auto"
    found = {}

    def note(what, way, figure):
        found.setdefault(what, {}).setdefault(way, []).append(figure)

    with Testbed(options) as testbed:
        for _ in range(options.rounds):
            for way in ("rsockets", "tcp"):
                place = Place(testbed, way)
                for streams in (1, 8):
                    note(f"`iperf3 -P {streams}`, GB/s", way, iperf3(place, streams))
                for kind, rate in redis(place).items():
                    note(f"`redis-benchmark -c 50`, {kind}, thousands a second", way, rate)
    print("| what | rsockets, direct | TCP over loopback | ratio |\n|---|---|---|---|")
    for what, rates in found.items():
        ratios = [ours / peers for ours, peers in zip(rates["rsockets"], rates["tcp"])]
        print(f"| {what} | {text_of(rates['rsockets'])} | {text_of(rates['tcp'])} | {text_of(ratios)} |")


if __name__ == "__main__":
    main()
