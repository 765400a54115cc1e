#!/usr/bin/env python3
"""Measures the wire path between two nodes over loopback, beside what the kernel's own sockets give in the
same run: rounds alternate, so that a disturbance of the machine hits all of them alike."""

import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "programs"))

from lab import Failure, Lab, listens, option_parser, wait_until  # noqa: E402  (the path has to be set first)

MIB = 1 << 20
QUEUE_PAIRS = 1000
SECONDS_MAX = 60


def pair(lab, words):
    """What the client prints when the program runs as server on node a and client on node b."""
    port = lab.free_port()
    argv = [words[0], "-F", "-p", str(port), *words[1:]]
    server = lab.start_server("a", argv, port)
    client = lab.start("b", [*argv, lab.address("a")])
    client.expect_success(SECONDS_MAX)
    server.expect_success(SECONDS_MAX)
    return client.output()


def bandwidth(lab, program, seconds):
    """GB/s of messages of 64 KiB at MTU 4096."""
    output = pair(lab, [program, "-s", "65536", "-m", "4096", "-D", str(seconds)])
    row = re.search(r"^ *65536 +\d+ +[\d.]+ +([\d.]+)\s", output, re.MULTILINE)
    return float(row.group(1)) * MIB / 1e9


def latency(lab, program, iterations):
    """Typical one-way time of 8 bytes in microseconds: half a round trip."""
    output = pair(lab, [program, "-s", "8", "-n", str(iterations)])
    row = re.search(r"^ *8 +\d+ +[\d.]+ +[\d.]+ +([\d.]+)\s", output, re.MULTILINE)
    return float(row.group(1))


def with_server(lab, server_argv, port, client_argv):
    """Output of a client of a server that knows nothing of Verbatim."""
    with subprocess.Popen(server_argv, stdout=subprocess.DEVNULL) as server:
        try:
            wait_until(lambda: listens(server.pid, port), 20, f"{server_argv[0]} to listen")
            return subprocess.run(client_argv, check=True, text=True, timeout=SECONDS_MAX,
                                  stdout=subprocess.PIPE).stdout
        finally:
            server.kill()


def kernel_tcp_bandwidth(lab, seconds):
    """GB/s of one TCP connection."""
    port = lab.free_port()
    output = with_server(lab, ["iperf3", "-s", "-1", "-p", str(port)], port,
                         ["iperf3", "-c", "127.0.0.1", "-p", str(port), "-t", str(seconds), "-J"])
    return json.loads(output)["end"]["sum_received"]["bits_per_second"] / 8e9


def kernel_udp_latency(lab, seconds):
    """One-way time of 8 bytes in microseconds, as qperf reckons it: half a round trip."""
    port = lab.free_port()
    output = with_server(lab, ["qperf", "-lp", str(port)], port,
                         ["qperf", "-lp", str(port), "-t", str(seconds), "-m", "8", "-u",
                          "127.0.0.1", "udp_lat"])
    value, unit = re.search(r"latency += +([\d.]+) (ns|us|ms)", output).groups()
    return float(value) * {"ns": 1e-3, "us": 1.0, "ms": 1e3}[unit]


def queue_pair_cost(lab):
    """KiB of memory of each of 1,000 connected RC queue pairs that have each sent a message."""
    program = lab.start("a", [f"{lab.build}/bin/queue_pairs", str(QUEUE_PAIRS)])
    program.expect_success(SECONDS_MAX)
    return float(re.search(r"used: ([\d.]+)", program.output()).group(1))


def measure(lab, rounds, seconds):
    """Name of a measurement -> its figure in each round."""
    steps = {
        "ib_send_bw": lambda: bandwidth(lab, "ib_send_bw", seconds),
        "iperf3": lambda: kernel_tcp_bandwidth(lab, seconds),
        "ib_write_bw": lambda: bandwidth(lab, "ib_write_bw", seconds),
        "ib_send_lat": lambda: latency(lab, "ib_send_lat", 20000),
        "qperf udp_lat": lambda: kernel_udp_latency(lab, seconds),
    }
    figures = {name: [] for name in steps}
    for number in range(1, rounds + 1):
        for name, step in steps.items():
            figures[name].append(step())
            print(f"round {number} of {rounds}: {name} {figures[name][-1]:.3f}", file=sys.stderr)
    return figures


def machine():
    model = "unknown processor"
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return f"{os.cpu_count()} processors ({model}), Linux {platform.release()}"


def report(figures, queue_pair_kib, rounds):
    """The page docs/benchmarks.md."""
    def row(what, unit, ours, kernels, aim):
        values, others = figures[ours], figures[kernels]
        ratio = statistics.median(values) / statistics.median(others)
        return (f"| {what} | {statistics.median(values):.2f} {unit} "
                f"({min(values):.2f} to {max(values):.2f}) | {kernels} "
                f"{statistics.median(others):.2f} {unit} ({min(others):.2f} to {max(others):.2f}) "
                f"| {ratio:.2f} | {aim} |")

    return "\n".join([
        "# Benchmarks",
        "Written by `bench/wire.py`. Two nodes over loopback, wire path (RoCE v2 over UDP); beside each",
        "figure what the kernel's sockets give in the same run. Medians of "
        f"{rounds} alternating rounds (least to greatest).",
        "",
        f"Machine: {machine()}.",
        "",
        "| what | Verbatim | kernel | ratio | aim |",
        "|---|---|---|---|---|",
        row("`ib_send_bw`, 64 KiB, MTU 4096", "GB/s", "ib_send_bw", "iperf3", "1 or more"),
        row("`ib_write_bw`, 64 KiB, MTU 4096", "GB/s", "ib_write_bw", "iperf3", "1 or more"),
        row("`ib_send_lat`, 8 bytes, one way", "us", "ib_send_lat", "qperf udp_lat", "1 or less"),
        f"| memory of an RC queue pair (128 sends, 512 receives; {QUEUE_PAIRS:,} in one program) | "
        f"{queue_pair_kib:.1f} KiB | | | under 64 KiB |",
        "",
    ])


def main():
    parser = option_parser(__doc__)
    parser.set_defaults(build=os.environ.get("VERBATIM_BUILD", ROOT / "build"), path="wire")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=2, help="of each measurement")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    options = parser.parse_args()
    with Lab(options) as lab:
        figures = measure(lab, options.rounds, options.seconds)
        page = report(figures, queue_pair_cost(lab), options.rounds)
    print(page)
    if options.write:
        target = ROOT / "docs" / "benchmarks.md"
        # What people have written below stays.
        _, heading, notes = target.read_text(encoding="utf-8").partition("\n## ")
        target.write_text(page.rstrip("\n") + "\n" + heading + notes, encoding="utf-8")


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failure as failure:
        sys.exit(f"bench: {failure}")
