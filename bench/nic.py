#!/usr/bin/env python3
"""The SmartNIC beside Open vSwitch in software, a Linux bridge and DPDK's own tables, all in one run. Prints a table; --write also
writes it into docs/benchmarks.md. Needs ./setup.sh nic test, iperf3 and perftest; no root where user namespaces are allowed."""

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/offload"))

import nic_ovs_tables  # noqa: E402  (the path has to be set first)
from setup import DPDK, SetUp, skip_without, until  # noqa: E402

HEADING = "\n## The SmartNIC\n"
HEAD = """Written by `bench/nic.py --write` on {processors} processors, {rounds} rounds, load {load}; medians (least to greatest).
`iperf3` and `ib_write_bw` run between two network namespaces. Processor time is that of threads, so other
work does not count.

| what | card | beside it | ratio | aim | met |
|---|---|---|---|---|---|
"""
BRIDGE = """
ip link add br1 type bridge
ip link set br1 up
for i in 0 1; do
  ip netns add b$i
  ip -n b$i link set lo up
  ip link add bv$i type veth peer name bp$i
  ip link set bv$i master br1 up
  ip link set bp$i netns b$i name eth0
  ip -n b$i addr add 10.8.0.$((i + 1))/24 dev eth0
  ip -n b$i link set eth0 up
done
"""
SOFTWARE = """
ovs-vsctl -t 20 add-br br2 -- set bridge br2 datapath_type=netdev
for i in 0 1; do
  ovs-vsctl -t 20 add-port br2 t$i -- set Interface t$i type=dpdk "options:dpdk-devargs=net_tap$i,iface=vct$i" options:n_rxq=2
  ip netns add t$i
  ip -n t$i link set lo up
  ip link set vct$i netns t$i name eth0
  ip -n t$i addr add 10.7.0.$((i + 1))/24 dev eth0
  ip -n t$i link set eth0 up
done
"""


def processor_seconds(process):
    return int(pathlib.Path(f"/proc/{process}/schedstat").read_text(encoding="utf-8").split()[0]) / 1e9


class Pair:
    """Two network namespaces of a set-up."""

    def __init__(self, setup, names, network):
        self.setup, self.names, self.network = setup, names, network

    def words(self, number, *words):
        return ["ip", "netns", "exec", self.names[number], *words]

    def run(self, number, *words, **more):
        return self.setup.command("shell", "--", *self.words(number, *words), **more).stdout

    def start(self, number, *words):
        return subprocess.Popen([self.setup.verbatim, "nic", "ovs", "shell", "--", *self.words(number, *words)],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def reach(self):
        until(lambda: " 0% packet loss" in self.run(0, "ping", "-c", "3", "-i", "0.3", "-q", f"{self.network}.2", check=False),
              f"{self.names} do not reach each other")

    def iperf(self, seconds):
        """Gb/s."""
        server = self.start(1, "iperf3", "-s", "-1")
        until(lambda: ":5201" in self.run(1, "ss", "-lnt"), "iperf3 does not listen")
        told = json.loads(self.run(0, "iperf3", "-c", f"{self.network}.2", "-t", str(seconds), "-J"))
        server.wait(20)
        return told["end"]["sum_received"]["bits_per_second"] / 1e9

    def node(self, number):
        return [self.setup.verbatim, "run", "--node", f"{self.names[number]}n", "--address",
                f"{self.network}.{number + 1}", "--"]

    def server(self):
        """Where perftest's own TCP connection leads."""
        return f"{self.network}.2"

    def write_bw(self, seconds):
        """GB/s of RoCE between two nodes."""
        words = ["ib_write_bw", "-x", "1", "-s", "65536", "-F", "-D", str(max(2, seconds))]
        server = self.start(1, *self.node(1), *words)
        until(lambda: ":18515" in self.run(1, "ss", "-lnt"), "ib_write_bw does not listen")
        told = self.run(0, *self.node(0), *words, self.server())
        server.wait(30)
        return float(re.search(r"^ *65536 .*", told, re.MULTILINE)[0].split()[3]) * 1.048576e-3


class Rings(Pair):
    """Functions that are rings of memory: nodes where Open vSwitch is."""

    def words(self, number, *words):
        return list(words)

    def node(self, number):
        return [self.setup.verbatim, "run", "--node", f"{self.names[number]}n", "--address", f"{self.network}.{number + 3}",
                "--function", f"ovs/{self.names[number]}", "--"]

    def server(self):
        return "127.0.0.1"


def text_of(values, form="{:.3g}"):
    if len(values) == 1:
        return form.format(values[0])
    return f"{form} ({form} to {form})".format(statistics.median(values), min(values), max(values))


def row(what, ours, theirs, aim, least):
    """`least`: whether the ratio ours to theirs is to be at least the aim, or at most."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    middle = statistics.median(ratios)
    met = middle >= aim if least else middle <= aim
    word = "at least" if least else "at most"
    return f"| {what} | {text_of(ours)} | {text_of(theirs)} | {text_of(ratios)} | {word} {aim} | {'yes' if met else 'no'} |"


def plain(what, values, aim, least, form="{:.3g}"):
    middle = statistics.median(values)
    met = middle >= aim if least else middle <= aim
    return f"| {what} | {text_of(values, form)} | | | {'at least' if least else 'at most'} {aim} | {'yes' if met else 'no'} |"


def between_functions(build, options):
    setup = SetUp(build, words=["--vfs", "4", "--rings", "vf2,vf3"])
    found = {name: [] for name in ("card", "software", "bridge", "per_second", "roce_card", "roce_bridge", "roce_rings")}
    setup.up(f"dpdk-extra={DPDK.format(1024)}", "per-port-memory=true")
    try:
        setup.switch("bash", "-euc", BRIDGE)
        setup.switch("bash", "-euc", SOFTWARE)
        card, bridge, software = (Pair(setup, names, network) for names, network in (
            (("vf0", "vf1"), "10.9.0"), (("b0", "b1"), "10.8.0"), (("t0", "t1"), "10.7.0")))
        rings = Rings(setup, ("vf2", "vf3"), "10.9.0")
        for pair in (card, bridge, software):
            pair.reach()
        setup.warm_up()
        process = setup.card()["process"]
        for _ in range(options.rounds):
            before, bytes_before = processor_seconds(process), setup.offloaded_bytes()
            found["card"].append(card.iperf(options.seconds))
            seconds = processor_seconds(process) - before
            found["per_second"].append((setup.offloaded_bytes() - bytes_before) / seconds / 1e9)
            found["bridge"].append(bridge.iperf(options.seconds))
            found["software"].append(software.iperf(options.seconds))
            found["roce_card"].append(card.write_bw(options.seconds))
            found["roce_bridge"].append(bridge.write_bw(options.seconds))
            found["roce_rings"].append(rings.write_bw(options.seconds))
    finally:
        setup.down()
    return [row("`iperf3`, Gb/s, beside Open vSwitch in software with `net_tap`", found["card"], found["software"], 6, True),
            row("the same beside a Linux bridge with veth", found["card"], found["bridge"], 0.7, True),
            plain("GB for a second of the card's processor time, in these runs", found["per_second"], 2.5, True),
            row("`ib_write_bw` 64 KiB, GB/s, beside a Linux bridge", found["roce_card"], found["roce_bridge"], 0.75, True),
            row("the same over functions that are rings, beside the TAPs", found["roce_rings"], found["roce_card"], 3, True)]


def figures(program):
    done = subprocess.run([program], text=True, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return {name: float(value) for name, value in (line.split() for line in done.stdout.splitlines() if line.count(" ") == 1)}


def tables(build, options):
    ours, theirs = [], []
    switch = {name: [] for name in nic_ovs_tables.TABLES}
    for _ in range(options.rounds):
        ours.append(figures(f"{build}/bin/bench_nic_switch"))
        theirs.append(figures(f"{build}/bin/bench_nic_anchors"))
        for name, values in switch.items():
            with tempfile.TemporaryDirectory() as folder:
                values.append(nic_ovs_tables.nanoseconds(build, pathlib.Path(folder), name))

    def of(runs, name):
        return [run[name] for run in runs]

    return [row("eight `rte_hash` in turn (right) beside parse and lookup (left), 10,000 flows, 8 masks, ns",
                of(theirs, "rte_hash_ns"), of(ours, "lookup_ns"), 1.5, True).replace("(right)", "(left)").replace(
                    "lookup (left)", "lookup (right)"),
            row("`rte_acl` (left) beside the same with the exact cache (right), ns", of(theirs, "rte_acl_ns"),
                of(ours, "lookup_cached_ns"), 0.5, True),
            *(row(f"the card's part of a 60-byte frame, ring to ring, beside Open vSwitch's {name}, ns",
                  of(ours, "ring_to_ring_ns"), values, aim, False)
              for (name, values), aim in zip(switch.items(), (0.5, 1), strict=True)),
            plain("a rule with index and counter, a million of them, bytes", of(ours, "bytes_a_rule"), 256, False, "{:.0f}"),
            plain("a driver's rings, MiB a port", [value / (1 << 20) for value in of(ours, "ring_bytes_a_port")], 16, False)]


def million_rules(build, options):
    """Of Debian's dpdk-test-flow-perf."""
    told = []
    for _ in range(options.rounds):
        done = subprocess.run([sys.executable, "-B", ROOT / "tests/offload/test_flow_perf.py", build], text=True, check=True,
                              stdout=subprocess.PIPE)
        told.append({name: float(value) for name, value in re.findall(r"(\w+_us) ([\d.]+)", done.stdout)})
    return [plain("`dpdk-test-flow-perf`, a million rules in and out again, us of driver and card a rule",
                  [each["driver_us"] + each["card_us"] for each in told], 2.7, False)]


def frames(build, options):
    """RoCE v2 packets of 4,200 bytes, from ring to ring, by a rule for all."""
    script = f"""export XDG_RUNTIME_DIR=$(mktemp -d)
{build}/bin/verbatim nic up --vfs 2 --rings vf0,vf1 --socket $XDG_RUNTIME_DIR/card.sock >/dev/null
coproc {build}/bin/offload_cable $XDG_RUNTIME_DIR/card.sock 1 2
read -r -u ${{COPROC[0]}}
for i in $(seq {options.rounds}); do
  {build}/bin/function_ends $XDG_RUNTIME_DIR/card.sock/vf0 $XDG_RUNTIME_DIR/card.sock/vf1 {options.seconds}
done
{build}/bin/verbatim nic down"""
    told = subprocess.run(["unshare", "-Urnm", "bash", "-c", script], text=True, check=True, stdout=subprocess.PIPE).stdout
    return [plain("RoCE v2 packets of 4,200 bytes, ring to ring, GB/s",
                  [float(gigabytes) for gigabytes in re.findall(r"([\d.]+) GB/s", told)], 20, True)]


def memory(build):
    """Resident, of a card without rules."""
    script = f"""export XDG_RUNTIME_DIR=$(mktemp -d)
{build}/bin/verbatim nic up --vfs 4 >/dev/null
process=$({build}/bin/verbatim nic show --json | sed -n 's/.*"process": *\\([0-9]*\\).*/\\1/p' | head -1)
grep VmRSS /proc/$process/status
{build}/bin/verbatim nic down"""
    told = subprocess.run(["unshare", "-Urnm", "bash", "-c", script], text=True, check=True, stdout=subprocess.PIPE).stdout
    return [plain("the card's resident memory, 5 TAPs, no rule, MiB", [int(told.split()[1]) / 1024], 64, False)]


def write(text):
    page = ROOT / "docs/benchmarks.md"
    before, _, after = page.read_text(encoding="utf-8").partition(HEADING)
    rest = after[after.index("\n## "):] if "\n## " in after else ""
    page.write_text(before.rstrip("\n") + "\n" + HEADING + text + rest, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    skip_without(build)
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        rows = [*between_functions(build, options), *tables(build, options), *million_rules(build, options), *frames(build, options),
                *memory(build)]
    text = HEAD.format(processors=os.cpu_count(), rounds=options.rounds, load=f"{load:.0f}") + "\n".join(rows) + "\n"
    print(text)
    if options.write:
        write(text)


if __name__ == "__main__":
    main()
