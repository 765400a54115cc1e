#!/usr/bin/env python3
"""Storage over RDMA: reads of 256 MiB of memory by our initiators from our target on the direct path, polling and
sleeping, beside a bare verbs loop, tgt with libiscsi over the same stack, and nbdkit's memory plugin over TCP; the
memory of an idle connection. Each round runs all rows; prints medians, with the least and the greatest. Needs two
processors for itself, and Debian's fio, libiscsi-bin, nbdkit and tgt for the rows that have their names."""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "programs"))

from testbed import Failure, Testbed, cpu_seconds, listens, wait_until  # noqa: E402 (found by the line above)

NQN, IQN, INITIATOR = "nqn.2026-01.test:disk", "iqn.2026-01.test:disk", "iqn.2026-01.test:i"
DISK = "256M"
# Name, depth, bytes of a read, and how long both sides poll.
LOADS = (
    ("4 KiB, depth 32, polling", 32, 4096, "always"),
    ("4 KiB, depth 32, sleeping", 32, 4096, "0"),
    ("4 KiB, depth 1, polling", 1, 4096, "always"),
    ("128 KiB, depth 8, polling", 8, 131072, "always"),
)


class Figures:
    """Of one load: reads a second, and both sides' processor time a read."""

    def __init__(self, reads, seconds, processor):
        self.rate, self.latency = reads / seconds, 1e6 * seconds / reads
        self.processor = 1e6 * processor / reads


class Target:
    """Our target on node a, by all three protocols."""

    def __init__(self, testbed, spin):
        self.testbed, self.spin = testbed, spin
        self.ports = {way: testbed.free_port() for way in ("nvme", "iser", "srp")}

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
    server = testbed.start("a", ["tgtd", "-f", "-C", str(port), "--iscsi", "portal=127.0.0.1:0", "--iser", f"port={port}"])
    target = f"tgtadm -C {port} --lld iser --op"
    steps = (f"show --mode sys", f"new --mode target --tid 1 -T {IQN}", f"new --mode logicalunit --tid 1 --lun 1 -b {disk}",
             "bind --mode target --tid 1 -I ALL", f"bind --mode target --tid 1 -Q {INITIATOR}")
    environment = testbed.environment() | {"TGT_IPC_SOCKET": f"{testbed.folder}/tgt"}

    def done(step):
        return subprocess.run(f"{target} {step}".split(), env=environment, capture_output=True, check=False).returncode == 0

    for step in steps:
        wait_until(lambda step=step: done(step), 30, f"tgtadm {step}")
    url = f"iser://{testbed.address('a')}:{port}/{IQN}/1"
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
        found = json.loads(subprocess.run(words, capture_output=True, text=True, check=True).stdout)["jobs"][0]
        processor = cpu_seconds(server.pid) - before + (found["usr_cpu"] + found["sys_cpu"]) / 100 * seconds
        return Figures(max(found["read"]["total_ios"], 1), found["read"]["runtime"] / 1000, processor)
    finally:
        server.kill()
        server.wait()


def resident(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as lines:
        found = {line.split(":")[0]: line.split()[1] for line in lines if line.startswith("Rss")}
    return sum(int(found[name]) for name in ("RssAnon", "RssShmem")) * 1024


def idle(testbed, way, sessions):
    """Bytes that the target has more for each connection, after `sessions` have logged in."""
    with Target(testbed, "0") as target:
        words = [f"{testbed.build}/bin/bench_storage", "idle", target.url(way)]
        first = testbed.start("b", [*words, "1", "600"])  # What the first one makes.
        wait_until(lambda: "idle" in first.output() or first.ended(), 60, "the first session")
        status = lambda: json.loads(target.verbatim("show", "--json"))["connections"]  # noqa: E731
        before, connections = resident(target.process), status()
        client = testbed.start("b", [*words, str(sessions), "600"])
        wait_until(lambda: "idle" in client.output() or client.ended(), 300, f"{sessions} sessions")
        if client.ended():
            raise Failure(client.output())
        grown, more = resident(target.process) - before, status() - connections
        first.kill()
        client.kill()
        return grown / max(more, 1), more


def text_of(values, digits=".3g"):
    return f"{statistics.median(values):{digits}} ({min(values):{digits}} to {max(values):{digits}})"


def rows(options):
    """Name, and what measures it."""
    for load in LOADS:
        for way in ("nvme", "iser", "srp"):
            yield f"{way}, {load[0]}", lambda testbed, way=way, load=load: ours(testbed, way, load, options.seconds)
        if load[3] == "always":
            yield f"bare verbs, {load[0]}", lambda testbed, load=load: bare(testbed, load, options.seconds)
    peers = (("libiscsi on our target, iser", libiscsi_on_ours, "iscsi-perf"), ("libiscsi on tgt, iser", tgt, "tgtd"),
             ("fio on nbdkit's memory, TCP", nbdkit, "nbdkit"))
    for name, measure, program in peers:
        if shutil.which(program):
            yield f"{name}, 4 KiB, depth 32", lambda testbed, measure=measure: measure(testbed, options.seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=2, help="of each row")
    parser.add_argument("--sessions", type=int, default=1000, help="that are idle (default: 1000; NVMe: 2 connections each)")
    parser.add_argument("--only", default="", help="rows that have this in their name")
    options = parser.parse_args()
    options.preload, options.path = "", "auto"
    found = {}
    for _ in range(options.rounds):
        for name, measure in rows(options):
            if options.only in name:
                with Testbed(options) as testbed:
                    found.setdefault(name, []).append(measure(testbed))
    print("| what | thousand reads a second | us each | us of processor a read, both sides |\n|---|---|---|---|")
    for name, figures in found.items():
        print(f"| {name} | {text_of([f.rate / 1000 for f in figures])} | {text_of([f.latency for f in figures])} | "
              f"{text_of([f.processor for f in figures])} |")
    for way in ("nvme", "iser", "srp"):
        if options.only in f"idle {way}":
            with Testbed(options) as testbed:
                size, count = idle(testbed, way, options.sessions)
            print(f"idle, {way}: {size / 1024:.1f} KiB for each of {count} connections")


if __name__ == "__main__":
    main()
