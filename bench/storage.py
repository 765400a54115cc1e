#!/usr/bin/env python3
"""Storage over RDMA: reads of 256 MiB of memory by our initiators from our target on the direct path, polling and
sleeping, beside a bare verbs loop, tgt with libiscsi over the same stack, and nbdkit's memory plugin over TCP; iSER on
the wire; the memory of an idle connection. Each round runs all rows; prints medians, with the least and the greatest,
and what of the aims is met; --write also writes that into docs/benchmarks.md. A row that fails says why, and stays
empty. Needs two processors for itself, and Debian's fio, libiscsi-bin, nbdkit and tgt for the rows that have their
names."""

import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "programs"))

from testbed import Failure, Testbed, cpu_seconds, listens, wait_until  # noqa: E402 (found by the line above)

NQN, IQN, INITIATOR = "nqn.2026-01.test:disk", "iqn.2026-01.test:disk", "iqn.2026-01.test:i"
DISK = "256M"
WAYS = ("nvme", "iser", "srp")
# Name, depth, bytes of a read, and how long both sides poll.
LOADS = (
    ("4 KiB, depth 32, polling", 32, 4096, "always"),
    ("4 KiB, depth 32, sleeping", 32, 4096, "0"),
    ("4 KiB, depth 1, polling", 1, 4096, "always"),
    ("128 KiB, depth 8, polling", 8, 131072, "always"),
)
ON_THE_WIRE = ("4 KiB, depth 128, polling, RoCE on the wire", 128, 4096, "always")
TGT, NBDKIT = "libiscsi on tgt, iser, 4 KiB, depth 32", "fio on nbdkit's memory, TCP, 4 KiB, depth 32"
PUBLISHED = 158_000  # Reads a second of tgt with libiscsi on a ConnectX-4.
BYTES_MAX = {"nvme": 65536, "iser": 68 * 8192, "srp": 65536}  # Of an idle connection. iSER: its posted window.
HEADING = "\n## Storage over RDMA\n"
HEAD = """Written by `bench/storage.py --write` on {processors} processors, {rounds} rounds, load {load:.0f}. A disk of 256 MiB
in memory that was written before, random reads, our initiators (`src/ulp/disk`, one thread) and our
target (one thread) on the direct path unless the row says otherwise. Processor time is that of both
sides; sides that poll take all of their processors' time. Medians (least to greatest).

"""


class Figures:
    """Of one load: reads a second, and both sides' processor time a read."""

    def __init__(self, reads, seconds, processor):
        self.rate, self.latency = reads / seconds, 1e6 * seconds / reads
        self.processor = 1e6 * processor / reads


class Target:
    """Our target on node a, by all three protocols."""

    def __init__(self, testbed, spin):
        self.testbed, self.spin = testbed, spin
        self.ports = {way: testbed.free_port() for way in WAYS}

    def verbatim(self, *words):
        return subprocess.run([f"{self.testbed.build}/bin/verbatim", "target", *words, "--node", "a"], check=True,
                              env=self.testbed.environment(), capture_output=True, text=True, timeout=60).stdout

    def __enter__(self):
        address = self.testbed.address("a")
        self.verbatim("up", "--address", address, "--ram", DISK, "--spin", self.spin,
                      "--nvme", NQN, "--listen", f"{address}:{self.ports['nvme']}", "--allow-any-host",
                      "--iscsi", IQN, "--iscsi-listen", f"{address}:{self.ports['iser']}", "--allow-any-initiator",
                      "--srp", "--srp-listen", f"{address}:{self.ports['srp']}", "--allow-any-srp-initiator")
        self.process = json.loads(self.verbatim("show", "--json"))["process"]
        return self

    def __exit__(self, kind, error, trace):
        subprocess.run([f"{self.testbed.build}/bin/verbatim", "target", "down", "--node", "a"], check=False,
                       env=self.testbed.environment(), capture_output=True)

    def url(self, way):
        address = self.testbed.address("a")
        if way == "srp":
            port = json.loads(self.verbatim("show", "--json"))["srp"]["ports"][0]["port"].removeprefix("0x")
            return f"srp://id_ext={port[:16]},ioc_guid={port[16:]},dest={address}:{self.ports['srp']}"
        return f"{way}://{address}:{self.ports[way]}/" + (f"{NQN}/1" if way == "nvme" else f"{IQN}/0")


def measured(program, server):
    """The line that a load prints, with the server's processor time meanwhile."""
    wait_until(lambda: "measuring" in program.output() or program.ended(), 60, program.name)
    before = cpu_seconds(server)
    wait_until(program.ended, 120, program.name)
    after = cpu_seconds(server)
    found = re.search(r"reads (\d+) seconds ([\d.]+) processor ([\d.]+)", program.output())
    if not found:
        raise Failure(f"{program.name}:\n{program.output()}")
    reads, seconds, processor = int(found[1]), float(found[2]), float(found[3])
    return Figures(max(reads, 1), seconds, processor + after - before)


def ours(testbed, way, load, seconds):
    _, depth, size, spin = load
    with Target(testbed, spin) as target:
        words = [f"{testbed.build}/bin/bench_storage", "load", target.url(way), str(depth), str(size), str(seconds), spin]
        return measured(testbed.start("b", words), target.process)


def bare(testbed, load, seconds):
    _, depth, size, _ = load
    program, address, port = f"{testbed.build}/bin/bench_storage_bare", testbed.address("a"), testbed.free_port()
    server = testbed.start("a", [program, "serve", address, str(port)])
    wait_until(lambda: testbed.bound_ports("a"), 20, "the bare server")
    client = testbed.start("b", [program, "load", address, str(port), str(depth), str(size), str(seconds)])
    figures = measured(client, server.process.pid)
    server.kill()
    return figures


def iscsi_perf(testbed, url, server, seconds):
    """libiscsi's own load: 4 KiB, 32 at a time."""
    client = testbed.start("b", ["iscsi-perf", "-i", INITIATOR, "-b", "8", "-m", "32", "-r", "-t", str(seconds), url])
    before = cpu_seconds(server)
    client.expect_success(seconds + 60)
    found = re.findall(r"iops average (\d+)", client.output())
    if not found:
        raise Failure(f"iscsi-perf:\n{client.output()}")
    return Figures(max(int(found[-1]) * seconds, 1), seconds, cpu_seconds(server) - before)


def libiscsi_on_ours(testbed, seconds):
    with Target(testbed, "50") as target:
        return iscsi_perf(testbed, target.url("iser"), target.process, seconds)


def tgt(testbed, seconds):
    port = testbed.free_port()
    disk = f"{testbed.folder}/disk"
    with open(disk, "wb") as file:
        file.truncate(256 << 20)
    testbed.set_variables("a", TGT_IPC_SOCKET=f"{testbed.folder}/tgt")
    # Its iSCSI by TCP needs a place of its own, outside of our node. By iSER it has the usual port: tgtd refuses any that is
    # said if errno is not 0 when it begins.
    server = testbed.start("a", ["tgtd", "-f", "-C", str(port), "--iscsi", f"portal=127.0.0.1:{testbed.free_port()}"])
    target = f"tgtadm -C {port} --lld iser --op"
    steps = ("show --mode sys", f"new --mode target --tid 1 -T {IQN}", f"new --mode logicalunit --tid 1 --lun 1 -b {disk}",
             "bind --mode target --tid 1 -I ALL", f"bind --mode target --tid 1 -Q {INITIATOR}")
    environment = testbed.environment() | {"TGT_IPC_SOCKET": f"{testbed.folder}/tgt"}

    def done(step):
        return subprocess.run(f"{target} {step}".split(), env=environment, capture_output=True, check=False).returncode == 0

    for step in steps:
        wait_until(lambda step=step: done(step), 30, f"tgtadm {step}")
    url = f"iser://{testbed.address('a')}:3260/{IQN}/1"
    wait_until(lambda: testbed.start("b", ["iscsi-inq", "-i", INITIATOR, url]).wait(60) == 0, 60, "tgtd's first login")
    figures = iscsi_perf(testbed, url, server.process.pid, seconds)
    server.kill()
    return figures


def nbdkit(testbed, seconds):
    """By TCP, without any of ours."""
    port = testbed.free_port()
    server = subprocess.Popen(["nbdkit", "-f", "-i", "127.0.0.1", "-p", str(port), "memory", DISK])
    try:
        wait_until(lambda: listens(server.pid, port), 20, "nbdkit")
        before = cpu_seconds(server.pid)
        words = ["fio", "--name=x", "--ioengine=nbd", f"--uri=nbd://127.0.0.1:{port}", "--rw=randread", "--bs=4k",
                 "--iodepth=32", f"--runtime={seconds}", "--time_based", f"--size={DISK}", "--output-format=json"]
        told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        found = json.loads(told[told.index("{"):])["jobs"][0]
        processor = cpu_seconds(server.pid) - before + (found["usr_cpu"] + found["sys_cpu"]) / 100 * seconds
        return Figures(max(found["read"]["total_ios"], 1), found["read"]["runtime"] / 1000, processor)
    finally:
        server.kill()
        server.wait()


def resident(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as lines:
        found = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith("Rss")}
    return sum(int(found[name]) for name in ("RssAnon", "RssShmem")) * 1024


class Idle:
    """What each connection of sessions that do nothing costs the target, and what is left when they were killed."""

    def __init__(self, testbed, way, sessions):
        self.count = 0
        with Target(testbed, "0") as target:
            words = [f"{testbed.build}/bin/bench_storage", "idle", target.url(way)]
            first = self.log_in(testbed, [*words, "1", "600"])  # What the first one makes.
            before, connections = resident(target.process), self.connections(target)
            client = self.log_in(testbed, [*words, str(sessions), "600"])
            self.count = self.connections(target) - connections
            self.bytes = (resident(target.process) - before) / max(self.count, 1)
            client.kill()
            wait_until(lambda: self.connections(target) == connections, 120, "the killed sessions to be over")
            self.left = (resident(target.process) - before) / max(self.count, 1)
            first.kill()

    @staticmethod
    def connections(target):
        return json.loads(target.verbatim("show", "--json"))["connections"]

    @staticmethod
    def log_in(testbed, words):
        program = testbed.start("b", words)
        wait_until(lambda: "idle" in program.output() or program.ended(), 300, " ".join(words))
        if program.ended():
            raise Failure(program.output())
        return program


def text_of(values, digits=".3g"):
    middle = f"{statistics.median(values):{digits}}"
    return middle if len(values) == 1 else f"{middle} ({min(values):{digits}} to {max(values):{digits}})"


def rows(options):
    """Name, path, and what measures it."""
    for load in LOADS:
        for way in WAYS:
            yield f"{way}, {load[0]}", "auto", lambda testbed, way=way, load=load: ours(testbed, way, load, options.seconds)
        if load[3] == "always":
            yield f"bare verbs, {load[0]}", "auto", lambda testbed, load=load: bare(testbed, load, options.seconds)
    peers = (("libiscsi on our target, iser, 4 KiB, depth 32", libiscsi_on_ours, "iscsi-perf"), (TGT, tgt, "tgtd"),
             (NBDKIT, nbdkit, "nbdkit"))
    for name, measure, program in peers:
        if shutil.which(program):
            yield name, "auto", lambda testbed, measure=measure: measure(testbed, options.seconds)
    yield f"iser, {ON_THE_WIRE[0]}", "wire", lambda testbed: ours(testbed, "iser", ON_THE_WIRE, options.seconds)


def measure_once(options, name, path, measure):
    """Nothing if it fails."""
    options.path = path
    try:
        with Testbed(options) as testbed:
            return measure(testbed)
    except (SystemExit, Failure, OSError, ValueError, subprocess.SubprocessError) as error:
        print(f"{name}: failed: {error}", file=sys.stderr, flush=True)
        return None


def ratios(ours_, theirs):
    """Of the rounds that have both."""
    return [one / other for one, other in zip(ours_, theirs) if one is not None and other is not None]


class Aims:
    """The issue's table, of what was found: rounds of each row, None where it has failed."""

    def __init__(self, found, idle):
        self.lines = []
        rate = self.values(found, lambda figures: figures.rate)
        for aim, load, thousands in ((600_000, LOADS[0], "600"), (200_000, LOADS[1], "200")):
            for way in WAYS:
                self.add(f"{way}, {load[0]}, thousand a second", [r / 1000 for r in self.some(rate, f"{way}, {load[0]}")],
                         aim / 1000, True, f"at least {thousands}")
        latency = self.values(found, lambda figures: figures.latency)
        processor = self.values(found, lambda figures: figures.processor)
        for way in WAYS:
            self.add(f"{way}, {LOADS[2][0]}, us", self.some(latency, f"{way}, {LOADS[2][0]}"), 5, False, "at most 5")
            self.add(f"{way}, {LOADS[3][0]}, GB/s", [r * LOADS[3][2] / 1e9 for r in self.some(rate, f"{way}, {LOADS[3][0]}")],
                     12, True, "at least 12")
            for load in (LOADS[0], LOADS[2], LOADS[3]):
                self.add(f"{way}, {load[0]}: processor time beside bare verbs",
                         ratios(processor.get(f"{way}, {load[0]}", []), processor.get(f"bare verbs, {load[0]}", [])),
                         1.4, False, "at most 1.4 ×")
            for peer in (TGT, NBDKIT):
                self.add(f"{way}, {LOADS[0][0]}, beside {peer}",
                         ratios(rate.get(f"{way}, {LOADS[0][0]}", []), rate.get(peer, [])), 3, True, "at least 3 ×")
        self.add("iser on the wire beside tgt with libiscsi on a ConnectX-4 (published)",
                 [r / PUBLISHED for r in self.some(rate, f"iser, {ON_THE_WIRE[0]}")], 1, True, "at least 1 ×")
        for way, one in idle.items():
            most = BYTES_MAX[way]
            self.add(f"{way}: KiB of a connection that is idle, of {one.count}", [one.bytes / 1024], most / 1024, False,
                     f"at most {most // 1024}")

    @staticmethod
    def values(found, of):
        return {name: [None if one is None else of(one) for one in rounds] for name, rounds in found.items()}

    @staticmethod
    def some(values, name):
        return [one for one in values.get(name, []) if one is not None]

    def add(self, what, values, aim, least, words):
        if not values:
            return
        middle = statistics.median(values)
        met = middle >= aim if least else middle <= aim
        self.lines.append(f"| {what} | {text_of(values)} | {words} | {'yes' if met else 'no'} |")


def text_of_all(found, idle):
    lines = ["| what | thousand reads a second | us each | us of processor a read |", "|---|---|---|---|"]
    for name, rounds in found.items():
        figures = [one for one in rounds if one is not None]
        if figures:
            lines.append(f"| {name} | {text_of([f.rate / 1000 for f in figures])} | {text_of([f.latency for f in figures])} | "
                         f"{text_of([f.processor for f in figures])} |")
        else:
            lines.append(f"| {name} | | | |")
    lines += ["", "| aim | measured | | met |", "|---|---|---|---|", *Aims(found, idle).lines]
    for way, one in idle.items():
        lines += [""] if one is next(iter(idle.values())) else []
        lines += [f"Of {one.count} connections of {way} whose initiators were killed, {one.left / 1024:.1f} KiB each were left."]
    return "\n".join(lines) + "\n"


def write(text):
    page = ROOT / "docs/benchmarks.md"
    before, _, after = page.read_text(encoding="utf-8").partition(HEADING)
    rest = after[after.index("\n## "):] if "\n## " in after else ""
    page.write_text(before.rstrip("\n") + "\n" + HEADING + text + rest, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=2, help="of each row")
    parser.add_argument("--sessions", type=int, default=2000, help="that are idle (default: 2000; NVMe: 2 connections each)")
    parser.add_argument("--only", default="", help="rows that have this in their name")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    options.preload = ""
    found, idle = {}, {}
    load = os.getloadavg()[0]
    for _ in range(options.rounds):
        for name, path, measure in rows(options):
            if options.only in name:
                one = measure_once(options, name, path, measure)
                found.setdefault(name, []).append(one)
                if one is not None:
                    print(f"{name}: {one.rate / 1000:.1f} k/s, {one.processor:.2f} us of processor", file=sys.stderr, flush=True)
    for way in WAYS:
        if options.only in f"idle {way}":
            one = measure_once(options, f"idle {way}", "auto", lambda testbed, way=way: Idle(testbed, way, options.sessions))
            if one is not None:
                idle[way] = one
    text = text_of_all(found, idle)
    print(text)
    if options.write:
        write(HEAD.format(processors=os.cpu_count(), rounds=options.rounds, load=load) + text)
    return 0 if all(one is not None for rounds in found.values() for one in rounds) else 1


if __name__ == "__main__":
    sys.exit(main())
