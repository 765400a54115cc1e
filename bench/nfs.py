#!/usr/bin/env python3
"""NFS through our gateways beside the same nfs-ganesha over TCP's loopback: a file in memory is read by Debian's nfs-cat.
Each round reads by TCP, and by TCP to a gateway, RDMA (direct path, then wire) to the other one, TCP to the server. Then
READs of 4 KiB by 16 connections, from memory and without TCP, beside a bare verbs loop that does the same; and the memory
of a connection that has no call open. Prints tables for docs/benchmarks.md, with medians, the least and the greatest.
Needs root, for ganesha."""

import argparse
import json
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "programs"))

from testbed import Failure, Testbed, cpu_seconds, wait_until  # noqa: E402 (found by the line above)

SECONDS = 300
CONNECTIONS, DEPTH, SMALL = 16, 8, 4096
CONFIGURATION = """
NFS_CORE_PARAM {{ NFS_Port = {port}; Protocols = 4; Enable_NLM = false; Enable_RQUOTA = false;
  Enable_UDP = false; mount_path_pseudo = true; }}
NFSv4 {{ RecoveryBackend = fs; RecoveryRoot = "{folder}/recovery"; Minor_Versions = 0,1,2; Graceless = true;
  Allow_Numeric_Owners = true; Only_Numeric_Owners = true; }}
EXPORT_DEFAULTS {{ Protocols = 4; Transports = TCP; SecType = sys; Squash = None; }}
EXPORT {{ Export_Id = 1; Path = "{data}"; Pseudo = /; Access_Type = RW; MaxRead = 1048576; FSAL {{ Name = VFS; }} }}
LOG {{ Default_Log_Level = WARN; }}
"""


def processor_seconds(processes):
    total = 0
    for process in processes:
        with open(f"/proc/{process}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


class Bench:
    def __init__(self, testbed, megabytes):
        self.testbed = testbed
        self.megabytes = megabytes
        self.port = testbed.free_port()
        self.data = os.path.join(testbed.folder, "data")
        os.makedirs(os.path.join(testbed.folder, "recovery"))
        os.makedirs(os.path.join(self.data, "below"))  # libnfs mounts a folder.
        with open(os.path.join(self.data, "below", "file"), "wb") as file:
            for _ in range(megabytes):
                file.write(os.urandom(1 << 20))
        configuration = os.path.join(testbed.folder, "ganesha.conf")
        with open(configuration, "w", encoding="ascii") as file:
            file.write(CONFIGURATION.format(port=self.port, folder=testbed.folder, data=self.data))
        self.ganesha = subprocess.Popen(["ganesha.nfsd", "-F", "-f", configuration, "-L", f"{testbed.folder}/ganesha.log",
                                         "-p", f"{testbed.folder}/ganesha.pid"])
        wait_until(lambda: self.run("nfs-ls", self.url("", self.port)).returncode == 0, 60, "nfs-ganesha")

    def run(self, *argv):
        return subprocess.run(argv, env=self.testbed.environment(), check=False, capture_output=True, timeout=SECONDS)

    def verbatim(self, *words):
        done = self.run(f"{self.testbed.build}/bin/verbatim", "nfs", *words)
        if done.returncode != 0:
            raise SystemExit(f"verbatim nfs {' '.join(words)}: {done.stderr.decode()}")
        return done.stdout

    def url(self, name, port):
        return f"nfs://127.0.0.1/{name}?version=4&nfsport={port}"

    def read(self, port, gateways=()):
        """GB/s; seconds of processor time a GB of nfs-cat, and of the gateways."""
        before, used = processor_seconds(gateways), resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.monotonic()
        with subprocess.Popen(["nfs-cat", self.url("below/file", port)], stdout=subprocess.PIPE) as cat:
            taken = 0
            while piece := os.read(cat.stdout.fileno(), 1 << 20):
                taken += len(piece)
        seconds = time.monotonic() - began
        if cat.returncode != 0 or taken != self.megabytes << 20:
            raise SystemExit(f"nfs-cat: status {cat.returncode}, {taken} bytes")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        client = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
        gigabytes = taken / 1e9
        return gigabytes / seconds, client / gigabytes, (processor_seconds(gateways) - before) / gigabytes

    def read_by_gateways(self, *path):
        place, port = f"{self.testbed.address('a')}:{self.testbed.free_port()}", self.testbed.free_port()
        on_a, on_b = ([*self.testbed.run_options(node), *path] for node in ("a", "b"))
        self.verbatim("serve", "--to", f"127.0.0.1:{self.port}", *on_a, "--listen", place)
        self.verbatim("client", place, *on_b, "--listen", f"127.0.0.1:{port}")
        gateways = [json.loads(self.verbatim("show", *on, "--json"))[0]["process"] for on in (on_a, on_b)]
        try:
            self.read(port)
            return self.read(port, gateways)
        finally:
            for on in (on_b, on_a):
                self.verbatim("down", *on)

    def end(self):
        self.ganesha.terminate()
        self.ganesha.wait(SECONDS)


def measured(client, server):
    """Thousand READs a second; microseconds of processor time a READ: the client's, the server's."""
    wait_until(lambda: "measuring" in client.output() or client.ended(), 60, client.name)
    before = cpu_seconds(server.process.pid)
    wait_until(client.ended, 120, client.name)
    used = cpu_seconds(server.process.pid) - before
    found = re.search(r"reads (\d+) seconds ([\d.]+) processor ([\d.]+)", client.output())
    if not found:
        raise Failure(f"{client.name}:\n{client.output()}")
    reads, seconds, processor = int(found[1]), float(found[2]), float(found[3])
    return reads / seconds / 1000, 1e6 * processor / reads, 1e6 * used / reads


def small_reads(testbed, seconds):
    """By RPCs, and by the bare exchange with as many requests under way."""
    figures, address = [], testbed.address("a")
    for program, words in (("bench_nfs_small", (CONNECTIONS, DEPTH)), ("bench_storage_bare", (CONNECTIONS * DEPTH,))):
        path, port = f"{testbed.build}/bin/{program}", str(testbed.free_port())
        server = testbed.start("a", [path, "serve", address, port])
        wait_until(lambda: testbed.bound_ports("a"), 20, program)
        client = testbed.start("b", [path, "load", address, port, *map(str, words), str(SMALL), str(seconds)])
        figures.append(measured(client, server))
        server.kill()
        wait_until(lambda: not testbed.bound_ports("a"), 20, "the port to be free")
    return figures


def resident_kib(process):
    with open(f"/proc/{process}/status", encoding="ascii") as file:
        return sum(int(number) for number in re.findall(r"Rss(?:Anon|Shmem):\s+(\d+)", file.read()))


def memory_of_a_client(testbed):
    """KiB that each of the connections adds to the server's process."""
    program, address, port = f"{testbed.build}/bin/bench_nfs_small", testbed.address("a"), str(testbed.free_port())
    server = testbed.start("a", [program, "serve", address, port])
    wait_until(lambda: "serves" in server.output(), 20, "the server")
    sizes = []
    for connections in (1, CONNECTIONS):
        client = testbed.start("b", [program, "idle", address, port, str(connections)])
        wait_until(lambda: "idle" in client.output() or client.ended(), 60, "the connections")
        sizes.append(resident_kib(server.process.pid))
    return (sizes[1] - sizes[0]) / CONNECTIONS


def text_of(values):
    return f"{statistics.median(values):.3g} | {min(values):.3g} to {max(values):.3g}"


def print_small(options):
    names = ("READ of NFS v3, RPC-over-RDMA", "bare verbs loop")
    rows, sizes = {name: [] for name in names}, []
    for _ in range(options.rounds):
        with Testbed(options) as testbed:
            for name, figures in zip(names, small_reads(testbed, options.seconds)):
                rows[name].append(figures)
            sizes.append(memory_of_a_client(testbed))
    print(f"\n| {SMALL} bytes, {CONNECTIONS * DEPTH} at a time, direct path | thousand a second | least to greatest "
          "| processor time each, both sides, us | least to greatest |\n|---|---|---|---|---|")
    for name, figures in rows.items():
        rates, clients, servers = zip(*figures)
        print(f"| {name} | {text_of(rates)} | {text_of([c + s for c, s in zip(clients, servers)])} |")
    print(f"\nMemory of an idle client in the server's process: {text_of(sizes)} KiB")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--seconds", type=int, default=2, help="of each row of small READs")
    parser.add_argument("--only", choices=("files", "small"), help="one of the two tables")
    options = parser.parse_args()
    options.preload, options.path = "", "auto"
    if options.only == "small":
        print_small(options)
        return 0
    if os.geteuid() != 0 or not shutil.which("ganesha.nfsd") or not shutil.which("nfs-cat"):
        raise SystemExit("needs root, nfs-ganesha-vfs and libnfs-utils (./setup.sh nfs)")
    figures = {}
    with Testbed(options) as testbed:
        bench = Bench(testbed, options.megabytes)
        try:
            for _ in range(options.rounds):
                figures.setdefault("TCP, without gateways", []).append(bench.read(bench.port))
                figures.setdefault("gateways, direct path", []).append(bench.read_by_gateways())
                figures.setdefault("gateways, wire path", []).append(bench.read_by_gateways("--path", "wire"))
        finally:
            bench.end()
    print("| reads of a file by nfs-cat | GB/s | least to greatest | client, s a GB | gateways, s a GB |\n|---|---|---|---|---|")
    for name, rows in figures.items():
        speed, client, gateways = zip(*rows)
        print(f"| {name} | {statistics.median(speed):.3g} | {min(speed):.3g} to {max(speed):.3g} "
              f"| {statistics.median(client):.3g} | {statistics.median(gateways):.3g} |")
    if not options.only:
        print_small(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
