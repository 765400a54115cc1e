#!/usr/bin/env python3
"""IP over InfiniBand between two hosts of a fabric with one switch, by iperf3 over TCP: datagram mode with and without
large packets, connected mode, and a pair of TUN interfaces whose packets go by UDP (tun_over_udp.cpp) at the same MTU. Each
round runs all of them in turn; prints medians, with the least and the greatest, and of the ratios of each round. Processor
time is that of each side's process that carries packets, user's and kernel's, without iperf3's. Needs Debian's iperf3,
ethtool, opensm and iproute2; with --calls also perf, and a user who may count system calls with it."""

import argparse
import contextlib
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import types

sys.path[:0] = [str(pathlib.Path(__file__).parents[1] / "tests" / folder) for folder in ("programs", "fabric", "networks")]

from fabricbed import FabricBed  # noqa: E402
from test_ipoib import namespaces  # noqa: E402
from testbed import free_ports, wait_until  # noqa: E402

ONE_SWITCH = 'Switch 4 "S1"\n[1] "H1"[1]\n[2] "H2"[1]\n\nHca 1 "H1"\n[1] "S1"[1]\n\nHca 1 "H2"\n[1] "S1"[2]\n'
HOSTS = ("H1", "H2")
TUN_MTU = 65480  # With UDP's and IP's headers it fits into loopback's.
PACKET = 2048
KIB = 1024
PORT = 5201
CALLS = ("readv", "writev", "sendto", "recvfrom", "sched_yield", "epoll_wait")
FREE_PORTS = free_ports()


class CallCount:
    """System calls of a process, while it is entered, by `perf`."""

    def __init__(self, pid):
        self.argv = ["perf", "stat", "-x,", "-e", ",".join(f"syscalls:sys_enter_{call}" for call in CALLS), "-p", str(pid)]

    def __enter__(self):
        self.perf = subprocess.Popen(self.argv, stderr=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_):
        self.perf.send_signal(signal.SIGINT)
        lines = [line.split(",") for line in self.perf.communicate()[1].splitlines()]
        counted = [words for words in lines if len(words) > 2 and words[0].isdigit()]
        self.found = {words[2].partition("_enter_")[2]: int(words[0]) for words in counted}


class Sides:
    """Two namespaces, and in each an interface with its process."""

    def __init__(self, bed, counts_calls=False):
        self.bed = bed
        self.counts_calls = counts_calls
        self.places = {host: namespaces() for host in HOSTS}
        self.pids = {}
        self.inside = {host: place.__enter__().pid for host, place in self.places.items()}

    def command(self, host, *argv):
        return ["nsenter", "--target", str(self.inside[host]), "--user", "--net", "--preserve-credentials", *argv]

    def on(self, host, *argv):
        return subprocess.run(self.command(host, *argv), check=True, capture_output=True, text=True, timeout=120).stdout

    def give_addresses(self, interface, network):
        for number, host in enumerate(HOSTS, 1):
            self.on(host, "ip", "address", "add", f"10.{network}.0.{number}/24", "dev", interface)
        self.on("H1", "ping", "-c", "3", "-i", "0.2", f"10.{network}.0.2")

    def end(self):
        for place in self.places.values():
            place.__exit__()

    def iperf3(self, network, seconds):
        """Gb/s, and microseconds of processor time for each packet of 2 KiB of each side's process."""
        address = f"10.{network}.0.2"
        server = subprocess.Popen(self.command("H2", "iperf3", "-s", "-1", "-B", address), stdout=subprocess.DEVNULL)
        wait_until(lambda: str(PORT) in self.on("H2", "ss", "-ltn"), 20, "iperf3")
        before = [self.processor_seconds(host) for host in HOSTS]
        with contextlib.ExitStack() as stack:
            counts = [stack.enter_context(CallCount(self.pids[host])) for host in HOSTS if self.counts_calls]
            told = json.loads(self.on("H1", "iperf3", "-J", "-t", str(seconds), "-c", address))["end"]["sum_received"]
        for host, count in zip(HOSTS, counts):
            each = {call: round(number / (told["bytes"] / PACKET), 4) for call, number in count.found.items()}
            print(f"{host}, calls for a packet: {each}", file=sys.stderr)
        spent = [self.processor_seconds(host) - at for host, at in zip(HOSTS, before)]
        server.wait(20)
        return told["bits_per_second"] / 1e9, *(1e6 * one / (told["bytes"] / PACKET) for one in spent)

    def processor_seconds(self, host):
        """With a resolution of nanoseconds."""
        threads = pathlib.Path(f"/proc/{self.pids[host]}/task").iterdir()
        return sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9

    def memory_mib(self, host):
        """Its own, without what it shares with others."""
        lines = pathlib.Path(f"/proc/{self.pids[host]}/smaps_rollup").read_text().splitlines()
        kinds = ("Private_Clean:", "Private_Dirty:")
        return sum(int(line.split()[1]) for line in lines if line.startswith(kinds)) / KIB


def daemon_of(bed, host):
    """The process of its interface ib0."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_text().split("\0")
            is_own = f"XDG_RUNTIME_DIR={bed.folder}" in (process / "environ").read_text()
        except OSError:
            continue
        if is_own and f"{host}.ib0" in words and "ipoib" in words:
            return int(process.name)
    raise RuntimeError(f"no interface of {host}")


def with_ipoib(bed, note, seconds, mode, counts_calls):
    sides = Sides(bed, counts_calls)
    try:
        for host in HOSTS:
            bed.verbatim("ipoib", "up", "--host", host, "--netns", str(sides.inside[host]), "--mode", mode)
            sides.pids[host] = daemon_of(bed, host)
            if mode == "connected":
                sides.on(host, "ip", "link", "set", "ib0", "mtu", str(TUN_MTU))
        sides.give_addresses("ib0", 9)
        note(mode, *sides.iperf3(9, seconds), sides.memory_mib("H2"))
        if mode == "datagram":
            for host in HOSTS:
                sides.on(host, "ethtool", "-K", "ib0", "tso", "off", "gso", "off")
            note("datagram, without large packets", *sides.iperf3(9, seconds), sides.memory_mib("H2"))
    finally:
        for host in HOSTS:
            bed.verbatim("ipoib", "down", "--host", host, check=False)
        sides.end()


def with_tun(bed, note, seconds):
    sides = Sides(bed)
    ends = {}
    try:
        ports = [next(FREE_PORTS), next(FREE_PORTS)]
        for host, own, peer in zip(HOSTS, ports, reversed(ports)):
            words = [f"{bed.build}/bin/bench_tun_over_udp", str(sides.inside[host]), "tun0", str(TUN_MTU), str(own), str(peer)]
            ends[host] = subprocess.Popen(words, stdout=subprocess.PIPE)
            ends[host].stdout.readline()
            sides.pids[host] = ends[host].pid
        sides.give_addresses("tun0", 10)
        note("TUN over UDP", *sides.iperf3(10, seconds), sides.memory_mib("H2"))
    finally:
        for end in ends.values():
            end.kill()
            end.wait()
        sides.end()


def text_of(values):
    return f"{statistics.median(values):.3g} ({min(values):.3g} to {max(values):.3g})"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--calls", action="store_true", help="also the system calls for a packet, on the standard error")
    options = parser.parse_args()
    found = {}

    def note(what, *figures):
        found.setdefault(what, []).append(figures)
        print(f"{what}: {', '.join(f'{figure:.2f}' for figure in figures)}", file=sys.stderr)

    with FabricBed(types.SimpleNamespace(build=options.build, preload="", path="wire")) as bed:
        bed.up(ONE_SWITCH)
        bed.start_manager("H1")
        bed.wait_until_active(*HOSTS)
        for _ in range(options.rounds):
            for mode in ("datagram", "connected"):
                with_ipoib(bed, note, options.seconds, mode, options.calls)
            with_tun(bed, note, options.seconds)
    print(f"load {os.getloadavg()[0]:.1f}\n")
    print("| what | Gb/s | us a 2 KiB packet, sender | receiver | MiB, receiver |\n|---|---|---|---|---|")
    for what, rounds in found.items():
        print(f"| {what} | {' | '.join(text_of(column) for column in zip(*rounds))} |")
    for ours, peer, aim in (("datagram", "datagram, without large packets", 2), ("connected", "TUN over UDP", 2)):
        ratios = [one[0] / other[0] for one, other in zip(found[ours], found[peer])]
        print(f"| {ours} beside {peer} (aim {aim}) | {text_of(ratios)} | | | |")


if __name__ == "__main__":
    main()
