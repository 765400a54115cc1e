#!/usr/bin/env python3
"""`verbatim nfs`: Debian's nfs-ganesha behind a gateway on node a, Debian's libnfs behind one on node b."""

import filecmp
import json
import os
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))

import nfs_server
from testbed import SKIPPED, Failure, Testbed, are_installed, option_parser, wait_until

SECONDS = 60
BYTES = 7_000_001


class Bench:
    """An NFS server, its gateway on node a, and a gateway on node b before the clients."""

    def __init__(self, testbed, protocol):
        self.testbed = testbed
        self.environment = testbed.environment() | {"VERBATIM_PROTOCOL": protocol}
        self.server = nfs_server.NfsServer(testbed.folder, testbed.free_port())
        self.place = f"{testbed.address('a')}:{testbed.free_port()}"
        self.port = testbed.free_port()

    def verbatim(self, *words):
        done = subprocess.run([f"{self.testbed.build}/bin/verbatim", "nfs", *words], env=self.environment, check=False,
                              capture_output=True, text=True, timeout=SECONDS)
        if done.returncode != 0:
            raise Failure(f"verbatim nfs {' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def serve(self):
        self.verbatim("serve", "--node", "a", "--address", self.testbed.address("a"), "--to",
                      f"127.0.0.1:{self.server.port}", "--listen", self.place)

    def client(self):
        self.verbatim("client", self.place, "--node", "b", "--address", self.testbed.address("b"), "--listen",
                      f"127.0.0.1:{self.port}")

    def down(self):
        for node in ("a", "b"):
            self.run(f"{self.testbed.build}/bin/verbatim", "nfs", "down", "--node", node)
        self.server.end()

    def show(self, node):
        return json.loads(self.verbatim("show", "--node", node, "--json"))[0]

    def url(self, name):
        return f"nfs://127.0.0.1/data/{name}?version=4&nfsport={self.port}"

    def run(self, *argv):
        return subprocess.run(argv, env=self.environment, check=False, capture_output=True, timeout=SECONDS)

    def expect(self, *argv):
        done = self.run(*argv)
        if done.returncode != 0:
            raise Failure(f"{' '.join(argv)}: status {done.returncode}\n{done.stdout[-500:]}{done.stderr[-500:]}")
        return done.stdout


def lists_a_folder(bench):
    for name in [f"file{i}" for i in range(300)]:
        with open(os.path.join(bench.server.data, name), "w", encoding="ascii") as file:
            file.write(name)
    listed = bench.expect("nfs-ls", bench.url("")).decode()
    if len(listed.splitlines()) < 300 or "file299" not in listed:
        raise Failure(f"nfs-ls shows {listed}")
    if bench.expect("nfs-cat", bench.url("file7")) != b"file7":
        raise Failure("nfs-cat shows other bytes")


def copies_there_and_back(bench):
    """Debian's nfs-cp fails to write more than a kilobyte by version 4, to whichever server."""
    source = os.path.join(bench.testbed.folder, "source")
    for name, size in (("short", 1000), ("long", BYTES)):
        with open(source, "wb") as file:
            file.write(os.urandom(size))
        target = os.path.join(bench.server.data, name)
        if name == "short":
            bench.expect("nfs-cp", source, bench.url(name))
        else:
            shutil.copy(source, target)
        if not filecmp.cmp(source, target, shallow=False):
            raise Failure("what was written differs")
        back = f"{source}.{name}"
        bench.expect("nfs-cp", bench.url(name), back)
        if not filecmp.cmp(source, back, shallow=False):
            raise Failure("what was read differs")


def serves_again_after_the_server_was_killed(bench):
    bench.server.kill()
    if bench.run("nfs-cat", bench.url("file7")).returncode == 0:
        raise Failure("a file of a server that is gone")
    if not any("refused" in one["words"] for one in bench.show("a")["incidents"]):
        raise Failure(f"nothing says why: {bench.show('a')['incidents']}")
    bench.server.start()
    wait_until(lambda: bench.run("nfs-cat", bench.url("file7")).stdout == b"file7", SECONDS, "the file")


def serves_again_after_a_gateway_was_killed(bench):
    os.kill(bench.show("a")["process"], signal.SIGKILL)
    bench.serve()
    wait_until(lambda: bench.run("nfs-cat", bench.url("file9")).stdout == b"file9", SECONDS, "the file")


PARTS = (lists_a_folder, copies_there_and_back, serves_again_after_the_server_was_killed,
         serves_again_after_a_gateway_was_killed)


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--protocol", default="roce", choices=("roce", "iwarp"))
    options = parser.parse_args()
    why = nfs_server.why_not()
    if why or not are_installed("nfs-ls", "nfs-cat", "nfs-cp"):
        print(f"skipped: {why}")
        return SKIPPED
    with Testbed(options) as testbed:
        bench = Bench(testbed, options.protocol)
        try:
            bench.serve()
            bench.client()
            for part in PARTS:
                part(bench)
                print(f"passed: {part.__name__}", flush=True)
        finally:
            bench.down()
    return 0


if __name__ == "__main__":
    sys.exit(main())
