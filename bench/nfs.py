#!/usr/bin/env python3
"""NFS through our gateways beside the same nfs-ganesha over TCP's loopback: a file in memory is read by Debian's nfs-cat.
Each round reads by TCP, and by TCP to a gateway, RDMA (direct path, then wire) to the other one, TCP to the server. Prints
a table for docs/benchmarks.md: GB/s, and seconds of processor time a GB of client and gateways. Needs root, for ganesha."""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "programs"))

from testbed import Testbed, wait_until  # noqa: E402 (found by the line above)

SECONDS = 300
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


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=int, default=256)
    options = parser.parse_args()
    options.preload, options.path = "", "auto"
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
    return 0


if __name__ == "__main__":
    sys.exit(main())
