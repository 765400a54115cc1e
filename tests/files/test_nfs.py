#!/usr/bin/env python3
"""`verbatim nfs`: a folder that Debian's nfs-ganesha serves on node a, Debian's libnfs behind a gateway on node b."""

import filecmp
import json
import os
import shutil
import signal
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))

from testbed import SKIPPED, Failure, Testbed, are_installed, option_parser, wait_until

SECONDS = 300
BYTES = 7_000_001


class Bench:
    """A folder that is served on node a, and a gateway on node b before the clients."""

    def __init__(self, testbed, **variables):
        self.testbed = testbed
        self.environment = testbed.environment() | variables
        self.data = os.path.join(testbed.folder, "data")
        os.mkdir(self.data)
        self.place = f"{testbed.address('a')}:{testbed.free_port()}"
        self.port = testbed.free_port()

    def verbatim(self, *words):
        done = subprocess.run([f"{self.testbed.build}/bin/verbatim", "nfs", *words], env=self.environment, check=False,
                              capture_output=True, text=True, timeout=SECONDS)
        if done.returncode != 0:
            raise Failure(f"verbatim nfs {' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def serve(self, *what):
        self.verbatim("serve", *(what or (self.data,)), *self.testbed.run_options("a"), "--listen", self.place)

    def client(self):
        self.verbatim("client", self.place, *self.testbed.run_options("b"), "--listen", f"127.0.0.1:{self.port}")

    def down(self):
        for node in ("a", "b"):
            self.run(f"{self.testbed.build}/bin/verbatim", "nfs", "down", *self.testbed.run_options(node))

    def show(self, node):
        return json.loads(self.verbatim("show", *self.testbed.run_options(node), "--json"))[0]

    def url(self, name):
        return f"nfs://127.0.0.1/{name}?version=4&nfsport={self.port}"

    def run(self, *argv):
        return subprocess.run(argv, env=self.environment, check=False, capture_output=True, timeout=SECONDS)

    def expect(self, *argv):
        done = self.run(*argv)
        if done.returncode != 0:
            raise Failure(f"{' '.join(argv)}: status {done.returncode}\n{done.stdout[-500:]}{done.stderr[-500:]}")
        return done.stdout


def lists_a_folder(bench):
    os.mkdir(os.path.join(bench.data, "below"))
    for name in [f"file{i}" for i in range(300)]:
        with open(os.path.join(bench.data, "below", name), "w", encoding="ascii") as file:
            file.write(name)
    listed = bench.expect("nfs-ls", bench.url("below")).decode()
    if len(listed.splitlines()) < 300 or "file299" not in listed:
        raise Failure(f"nfs-ls shows {listed}")
    if bench.expect("nfs-cat", bench.url("below/file7")) != b"file7":
        raise Failure("nfs-cat shows other bytes")


def copies_there_and_back(bench):
    """Debian's nfs-cp fails to write more than a kilobyte by version 4, to whichever server."""
    source = os.path.join(bench.testbed.folder, "source")
    for name, size in (("short", 1000), ("long", BYTES)):
        with open(source, "wb") as file:
            file.write(os.urandom(size))
        target = os.path.join(bench.data, "below", name)
        if name == "short":
            bench.expect("nfs-cp", source, bench.url(f"below/{name}"))
        else:
            shutil.copy(source, target)
        if not filecmp.cmp(source, target, shallow=False):
            raise Failure("what was written differs")
        back = f"{source}.{name}"
        bench.expect("nfs-cp", bench.url(f"below/{name}"), back)
        if not filecmp.cmp(source, back, shallow=False):
            raise Failure("what was read differs")


def nobody_else_reaches_the_server(bench):
    """It believes whoever does, and each user of a machine reaches its ports."""
    if not bench.show("a")["is_apart"]:
        print("no network namespace: the server shares this one's")
    elif strangers_reach(bench):
        raise Failure("a stranger reaches nfs-ganesha")


def strangers_reach(bench):
    with socket.socket() as stranger:
        return stranger.connect_ex(("127.0.0.1", int(bench.show("a")["to"].split(":")[1]))) == 0


def child_of(process):
    return subprocess.run(["pgrep", "-P", str(process)], check=True, capture_output=True, text=True).stdout.split()[0]


def serves_again_after_the_server_was_killed(bench):
    """First its doorkeeper, then itself."""
    gateway = bench.show("a")["process"]
    for restarts, find in ((1, lambda: child_of(gateway)), (2, lambda: child_of(child_of(gateway)))):
        os.kill(int(find()), signal.SIGKILL)
        wait_until(lambda: bench.show("a")["server_restarts"] == restarts, SECONDS, "nfs-ganesha to be started again")
        wait_until(lambda: bench.run("nfs-cat", bench.url("below/file7")).stdout == b"file7", SECONDS, "the file")
        nobody_else_reaches_the_server(bench)


def serves_again_after_a_gateway_was_killed(bench):
    process = bench.show("a")["process"]
    os.kill(process, signal.SIGKILL)
    wait_until(lambda: not os.path.exists(f"/proc/{process}"), SECONDS, "the gateway to end")
    bench.serve()
    wait_until(lambda: bench.run("nfs-cat", bench.url("below/file9")).stdout == b"file9", SECONDS, "the file")


def warns_without_a_network_of_its_own(bench):
    """Serves as well where namespaces are not to be had, and says who reaches the folder then."""
    if bench.run("unshare", "-Ur", "true").returncode != 0:
        return
    bench.verbatim("down", *bench.testbed.run_options("a"))
    serve = [f"{bench.testbed.build}/bin/verbatim", "nfs", "serve", bench.data, *bench.testbed.run_options("a"),
             "--listen", bench.place]
    done = bench.run("unshare", "-Ur", "sh", "-c", 'echo 0 > /proc/sys/user/max_net_namespaces && exec "$@"', "sh",
                     *serve)
    if done.returncode != 0 or b"every user of this machine reads and writes" not in done.stderr:
        raise Failure(f"serve: status {done.returncode}\n{done.stderr.decode()}")
    wait_until(lambda: bench.run("nfs-cat", bench.url("below/file7")).stdout == b"file7", SECONDS, "the file")
    if bench.show("a")["is_apart"] or not strangers_reach(bench):
        raise Failure(f"it is apart: {bench.show('a')}")


def says_what_is_wrong(bench):
    """A folder that is none; a port that is taken; a server that does not listen, or is none of RDMA."""
    bench.verbatim("down", *bench.testbed.run_options("a"))
    for what, words in (((f"{bench.data}/none",), "is no folder"), (("--to", "nonsense"), "is no address")):
        try:
            bench.serve(*what)
        except Failure as failure:
            if words not in str(failure):
                raise
        else:
            raise Failure(f"served {what}")
    bench.serve("--to", "127.0.0.1:1")
    if bench.run("nfs-cat", bench.url("below/file7")).returncode == 0:
        raise Failure("a file of a server that is not there")
    wait_until(lambda: any("refused" in one["words"] for one in bench.show("a")["incidents"]), SECONDS, "an incident")
    try:
        bench.verbatim("client", bench.place, "--node", "c", "--address", bench.testbed.address("b"), "--listen",
                       f"127.0.0.1:{bench.port}")
    except Failure as failure:
        if "Address already in use" not in str(failure):
            raise
    else:
        raise Failure("a port was taken twice")


def run_parts(bench, parts):
    try:
        bench.serve()
        bench.client()
        for part in parts:
            part(bench)
            print(f"passed: {part.__name__}", flush=True)
    finally:
        bench.down()


PARTS = (lists_a_folder, copies_there_and_back, nobody_else_reaches_the_server,
         serves_again_after_the_server_was_killed, serves_again_after_a_gateway_was_killed,
         warns_without_a_network_of_its_own, says_what_is_wrong)


def network_was_bad(bench):
    told = bench.run(f"{bench.testbed.build}/bin/verbatim", "status").stdout.decode()
    if told.count("packets lost") != 2:  # A table of each gateway's.
        raise Failure(f"no faults were injected:\n{told}")


COPIES = (lists_a_folder, copies_there_and_back)


def a_gigabyte_is_read(bench):
    os.mkdir(os.path.join(bench.data, "below"))  # libnfs mounts a folder.
    source, back = os.path.join(bench.data, "below", "gigabyte"), os.path.join(bench.testbed.folder, "back")
    with open(source, "wb") as file:
        for _ in range(1024):
            file.write(os.urandom(1 << 20))
    bench.expect("nfs-cp", bench.url("below/gigabyte"), back)
    if not filecmp.cmp(source, back, shallow=False):
        raise Failure("what was read differs")


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--protocol", default="roce", choices=("roce", "iwarp"))
    parser.add_argument("--fault", default="", help="of both gateways' packets; then files are copied alone")
    parser.add_argument("--long", action="store_true", help="read a gigabyte, and nothing else")
    options = parser.parse_args()
    if not are_installed("ganesha.nfsd", "nfs-ls", "nfs-cat", "nfs-cp"):
        return SKIPPED
    with Testbed(options) as testbed:
        bench = Bench(testbed, VERBATIM_PROTOCOL=options.protocol, VERBATIM_FAULT=options.fault)
        parts = (*COPIES, network_was_bad) if options.fault else PARTS
        run_parts(bench, (a_gigabyte_is_read,) if options.long else parts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
