#!/usr/bin/env python3
"""Socket programs over rsockets and SDP on the direct path, beside TCP over loopback: iperf3 and redis-benchmark,
unmodified, and connections that are opened, used once and closed. Each round runs all of them; prints medians, with the least and the greatest, and of the ratios of each round;
and the processor time of both ends. Needs Debian's iperf3 and redis-tools."""

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "programs"))

from testbed import Testbed, wait_until, listens  # noqa: E402 (found by the line above)

REQUESTS = 100_000  # Of each kind.
CONNECTIONS = 2_000
MANY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "programs", "many_sockets.py")
WAYS = {"rsockets": "rsockets", "sdp": "SDP", "tcp": "TCP over loopback"}
REDIS = "/usr/bin/redis-check-rdb"  # In Debian the server is this program by another name.


class Place:
    """Starts programs over rsockets or over TCP."""

    def __init__(self, testbed, way):
        self.testbed = testbed
        self.way = way
        self.seconds = 0.0  # Processor time of the programs that have ended.

    def words(self, node, argv):
        if self.way == "tcp":
            return argv
        return [f"{self.testbed.build}/bin/verbatim", "run", f"--{self.way}", *self.testbed.run_options(node), "--", *argv]

    def start_server(self, argv, port):
        server = subprocess.Popen(self.words("a", argv), env=self.testbed.environment(), stdout=subprocess.DEVNULL)
        wait_until(lambda: listens(server.pid, port), 20, argv[0])
        return server

    def end(self, process):
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.seconds += used.ru_utime + used.ru_stime

    def output(self, argv):
        client = subprocess.Popen(self.words("b", argv), env=self.testbed.environment(), stdout=subprocess.PIPE, text=True)
        text = client.stdout.read()
        self.end(client)
        if client.returncode != 0:
            raise SystemExit(f"{argv[0]} over {self.way} ended with status {client.returncode}")
        return text


def iperf3(place, streams):
    """Returns GB/s, and the bytes in GB."""
    port = place.testbed.free_port()
    address = place.testbed.address("a")
    server = place.start_server(["iperf3", "-s", "-1", "-B", address, "-p", str(port)], port)
    words = ["iperf3", "-c", address, "-p", str(port), "-t", "2", "-P", str(streams), "-J"]
    answer = json.loads(place.output(words))
    place.end(server)
    received = answer["end"]["sum_received"]
    return received["bits_per_second"] / 8e9, received["bytes"] / 1e9


def redis(place):
    """Returns thousands of requests a second for each kind."""
    port = place.testbed.free_port()
    address = place.testbed.address("a")
    words = f"exec -a redis-server {REDIS} --bind {address} --port {port} --save '' --protected-mode no"
    server = place.start_server(["bash", "-c", words], port)
    text = place.output(["redis-benchmark", "-h", address, "-p", str(port), "-n", str(REQUESTS), "-c", "50",
                         "-t", "set,get", "-q", "--csv"])
    server.send_signal(signal.SIGTERM)
    place.end(server)
    rows = [line.replace('"', "").split(",") for line in text.splitlines() if line.startswith(('"SET', '"GET'))]
    return {row[0]: float(row[1]) / 1000 for row in rows}


def connections(place):
    """Returns microseconds of both ends' processors a connection, a hundred at a time."""
    port = place.testbed.free_port()
    words = ["/usr/bin/python3", MANY]
    rest = [place.testbed.address("a"), str(port)]
    server = place.start_server([*words, "server", *rest], port)
    place.output([*words, "client", *rest, str(CONNECTIONS), "100"])
    server.send_signal(signal.SIGTERM)
    place.end(server)
    return place.seconds / CONNECTIONS * 1e6


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
            for way in WAYS:
                for streams in (1, 8):
                    place = Place(testbed, way)
                    rate, gigabytes = iperf3(place, streams)
                    note(f"`iperf3 -P {streams}`, GB/s", way, rate)
                    note(f"`iperf3 -P {streams}`, s of processor a GB", way, place.seconds / gigabytes)
                place = Place(testbed, way)
                for kind, rate in redis(place).items():
                    note(f"`redis-benchmark -c 50`, {kind}, thousands a second", way, rate)
                note("`redis-benchmark -c 50`, us of processor a request", way, place.seconds / (2 * REQUESTS) * 1e6)
                note("a connection with one byte each way, us of processor", way, connections(Place(testbed, way)))
    print("| what |", " | ".join(WAYS.values()), "| rsockets / TCP | SDP / TCP |\n|---|---|---|---|---|---|")
    for what, rates in found.items():
        ratios = [[ours / peers for ours, peers in zip(rates[way], rates["tcp"])] for way in ("rsockets", "sdp")]
        print("|", " | ".join([what, *(text_of(rates[way]) for way in WAYS), *map(text_of, ratios)]), "|", flush=True)


if __name__ == "__main__":
    main()
