#!/usr/bin/env python3
"""What all services of a node have in common, a row each: the options of `run`; `up` returns when it serves; `show`,
`show --json`, `verbatim status`; nothing is open to others; a second one, one that was killed, one that is not there;
and the words for wrong set-ups. What they do on a fabric's hosts: tests/networks."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path += [os.path.join(HERE, "..", folder) for folder in ("programs", "tool", "fabric")]

import command_help  # noqa: E402
from fabricbed import TRIANGLE, FabricBed  # noqa: E402
from testbed import Failure, Testbed, free_ports, option_parser, wait_until  # noqa: E402

SECONDS = 60
NODE_OPTIONS = {"--node", "--address", "--protocol", "--roce", "--device", "--profile", "--path", "--host", "--fabric"}
IQN = "iqn.2026-01.com.example:disk"


@dataclass(frozen=True)
class Service:
    group: str
    up: str  # The words that start it; {port}: a free one.
    kind: str = ""  # Of the daemon, if it is not the group's.
    what: str = ""  # "no {what} of 'a' runs"
    other: str = "{address}"  # Where else than at RDMA it listens: an address of this machine.
    iwarp: str = ""  # What it says over iWARP, if it refuses.

    def daemon(self):
        return self.kind or self.group


SERVICES = (
    Service("target", f"up --nvme nqn.2026-01.com.example:disk --iscsi {IQN} --srp --ram 1M", what="target"),
    Service("nfs", "serve", kind="nfs-serve", what="NFS gateway"),
    Service("nfs", "client {address} --listen 127.0.0.1:{port}", kind="nfs-client", what="NFS gateway", other="127.0.0.1"),
    Service("rds", "up", what="RDS broker", iwarp="RDS has no iWARP: use a node of RoCE or a host of a fabric"),
    Service("lnet", "up --port 9987", what="LNet node", iwarp="Say --net o2ib=ADDRESS"),
)

# Words after `up`, the exit status, and what must be said.
WRONG = (
    ("--host H1", 1, "no fabric 'default' runs: 'verbatim fabric up' starts one"),
    ("--host H1 --fabric nets", 1, "no fabric 'nets' runs: 'verbatim fabric up' starts one"),
    ("--fabric nets", 2, "--fabric needs --host: on which host of it?"),
    ("--node a --host H1", 2, "--node excludes --host"),
    ("--node .a", 2, "'.a' cannot be the name of a node"),
    ("--node a --address here", 2, "'here' is not an IP address: give one of this machine"),
    ("--node far --address 192.0.2.1", 1, "no interface of this machine (or network namespace) has the address 192.0.2.1"),
    ("--node a --address {address} --protocol ipx", 2, "'ipx' is no protocol: roce and iwarp are"),
    ("--node a --nonsense", 2, "there is no option '--nonsense'"),
)


class Bench:
    def __init__(self, testbed, service):
        self.testbed = testbed
        self.service = service
        self.words = {"address": testbed.address("a"), "port": testbed.free_port()}
        self.up_words = service.up.format_map(self.words).split()

    def run(self, *words, **environment):
        done = subprocess.run([f"{self.testbed.build}/bin/verbatim", *words], check=False, text=True, timeout=SECONDS,
                              capture_output=True, env=self.testbed.environment() | environment)
        return done.returncode, done.stdout, done.stderr

    def expect(self, status, said, *words, **environment):
        """Runs a command that must end so, with these words on standard error."""
        done = self.run(*words, **environment)
        if done[0] != status or said not in done[2]:
            raise Failure(f"verbatim {' '.join(words)}: status {done[0]}, expected {status} and '{said}' in: {done[2]}")
        return done[1]

    def up(self):
        word, *rest = self.up_words
        self.expect(0, "", self.service.group, word, "--node", "a", "--address", self.words["address"], *rest)

    def down(self, status=0, said=""):
        self.expect(status, said, self.service.group, "down", "--node", "a")

    def not_there(self):
        return f"no {self.service.what} of 'a' runs"

    def entry(self):
        """The service's part of `verbatim status --json`."""
        shown = json.loads(self.expect(0, "", "status", "--json"))
        return next((one for one in shown if one.get("service") == self.service.daemon() and one["name"] == "a"), None)

    def check_shown(self):
        entry = self.entry()
        if entry is None:
            raise Failure("'verbatim status' does not know it")
        text = self.expect(0, "", self.service.group, "show", "--node", "a")
        shown = json.loads(self.expect(0, "", self.service.group, "show", "--node", "a", "--json"))
        shown = shown[0] if isinstance(shown, list) else shown
        if shown["process"] != entry["process"] or not text:
            raise Failure(f"'show' and 'status' tell of different ones: {shown}, {entry}")
        if f"service {self.service.daemon()} 'a': process {shown['process']}" not in self.expect(0, "", "status"):
            raise Failure("'verbatim status' does not print it")
        return shown["process"]

    def check_listeners(self, process):
        """It listens at the node's address, or where it says, and not at all addresses of the machine."""
        shown = subprocess.run(["ss", "-Hltunp"], check=True, capture_output=True, text=True, timeout=SECONDS).stdout
        places = {line.split()[4].rsplit(":", 1)[0] for line in shown.splitlines() if f"pid={process}," in line}
        allowed = {self.words["address"], self.service.other.format_map(self.words)}
        if not places or not places <= allowed:
            raise Failure(f"it listens at {places}, and not at {allowed} alone")

    def check_life(self):
        self.down(1, self.not_there())
        self.expect(1, self.not_there(), self.service.group, "show", "--node", "a")
        self.up()
        process = self.check_shown()
        if str(process) not in self.expect(0, "", self.service.group, "show", "--json"):
            raise Failure("'show' without a node does not tell of all that run")
        self.check_listeners(process)
        twice = (0, "") if self.service.group == "rds" else (1, f"'verbatim {self.service.group} down' ends it")
        self.expect(*twice, self.service.group, *self.up_words, "--node", "a")
        os.kill(process, signal.SIGKILL)
        wait_until(lambda: self.entry() is None, SECONDS, "the killed one to be forgotten")
        self.expect(1, self.not_there(), self.service.group, "show", "--node", "a")
        self.up()
        self.check_shown()
        self.down()
        self.down(1, self.not_there())

    def check_wrong(self):
        for words, status, said in WRONG:
            self.expect(status, said, self.service.group, *self.up_words, *words.format_map(self.words).split())
        if self.service.iwarp:
            self.expect(1, self.service.iwarp, self.service.group, *self.up_words, "--node", "w", "--address",
                        self.testbed.address("w"), "--protocol", "iwarp")
        # The node runs already, elsewhere.
        with subprocess.Popen([f"{self.testbed.build}/bin/verbatim", "run", *self.testbed.run_options("a"), "--", "sleep", "60"],
                              env=self.testbed.environment()) as holder:
            wait_until(lambda: self.testbed.node_status("a"), SECONDS, "the node")
            self.expect(1, f"node 'a' runs already, with the address {self.words['address']} (asked for: "
                           f"{self.testbed.address('b')})", self.service.group, *self.up_words, "--node", "a", "--address",
                        self.testbed.address("b"))
            holder.kill()


def check_options(build):
    """Each command of a service takes the options of `run`, and `show` takes --json."""
    for command, options in command_help.options(build).items():
        group, _, word = command.partition(" ")
        if group not in {service.group for service in SERVICES} | {"ipoib"} or not word:
            continue
        if not NODE_OPTIONS <= options:
            raise Failure(f"verbatim {command} has no {NODE_OPTIONS - options}")
        if word == "show" and "--json" not in options:
            raise Failure(f"verbatim {command} has no --json")
    for command in ("run", "env", "doctor", "capture", "disk"):
        if not NODE_OPTIONS <= command_help.options(build)[command]:
            raise Failure(f"verbatim {command} lacks an option of a node or host")


def check_taken_ports(testbed):
    """A port that another program has is named."""
    bench = Bench(testbed, SERVICES[0])
    address = testbed.address("a")
    with socket.create_server((address, 3260)):
        bench.expect(1, f"TCP at {address}:3260: Address already in use", "target", *bench.up_words, "--node", "a", "--address",
                     address)
    port = testbed.free_port()
    with socket.create_server(("127.0.0.1", port)):
        bench.expect(1, f"TCP at 127.0.0.1:{port}: Address already in use", "nfs", "client", address, "--listen",
                     f"127.0.0.1:{port}", "--node", "a", "--address", address)
    if os.geteuid() != 0:
        bench.expect(1, "the port 987 is for root: say the same --port", "lnet", "up", "--node", "a", "--address", address)


def check_missing_packages(testbed):
    """What is not installed is named, with its package."""
    bench = Bench(testbed, SERVICES[0])
    if not os.path.exists("/usr/bin/ganesha.nfsd"):
        bench.expect(1, "install Debian's packages nfs-ganesha and nfs-ganesha-vfs", "nfs", "serve", testbed.folder, "--node", "a",
                     "--address", testbed.address("a"))
    bench.expect(127, "nbdkit", "disk", f"iser://127.0.0.1/{IQN}/0", PATH="/nowhere")
    bench.expect(1, "IP over InfiniBand is for hosts of a fabric: --host H1", "ipoib", "up", "--node", "a")


def check_environment(testbed):
    """`env` prints what `run` sets."""
    bench = Bench(testbed, SERVICES[0])
    for option in ("--sdp", "--rsockets"):
        words = ("--node", "a", "--address", testbed.address("a"), option)
        printed = set(re.findall(r"^export (\w+)=", bench.expect(0, "", "env", *words), re.MULTILINE))
        inside = bench.expect(0, "", "run", *words, "--", "env")
        of_run = {name for name in re.findall(r"^(\w+)=", inside, re.MULTILINE) if name not in bench.testbed.environment()}
        if not of_run - {"_"} <= printed:
            raise Failure(f"verbatim env {option} does not print {of_run - printed}")


def check_hosts(options):
    """On a fabric's host: without a subnet manager nothing can serve, and with the fabric services end."""
    with FabricBed(options) as bed:
        def run(status, said, *words):
            done = subprocess.run([f"{bed.build}/bin/verbatim", *words], check=False, text=True, timeout=SECONDS,
                                  capture_output=True, env=bed.environment())
            if done.returncode != status or said not in done.stdout + done.stderr:
                raise Failure(f"verbatim {' '.join(words)}: {done.returncode}, expected {status} and '{said}' in: "
                              f"{done.stdout}{done.stderr}")

        bed.up(TRIANGLE)
        for service in SERVICES:
            word, *rest = service.up.format(address="127.0.0.9", port=free_port()).split()
            run(1, "on a fabric, its subnet manager makes it so", service.group, word, "--host", "H1", *rest)
        run(2, "the fabric has no host 'H9'", "doctor", "--host", "H9")
        if shutil.which("opensm") is None:
            return
        bed.start_manager("H1")
        bed.wait_until_active("H1", "H2")
        run(0, "", "rds", "up", "--host", "H2")
        run(0, "RDS broker of H2", "rds", "show", "--host", "H2")
        run(0, "VERBATIM_HOST='H2'", "env", "--host", "H2")
        bed.verbatim("fabric", "down")
        wait_until(lambda: "service rds" not in bed.verbatim("status"), SECONDS, "the broker to end with its fabric")
        run(1, "no RDS broker of 'H2' runs", "rds", "down", "--host", "H2")
    print("passed: on a host of a fabric", flush=True)


def free_port():
    return next(free_ports())


def main():
    options = option_parser(__doc__).parse_args()
    if not shutil.which("ss"):
        print("skipped: there is no ss (package iproute2)")
        return 77
    check_options(options.build)
    with Testbed(options) as testbed:
        for service in SERVICES:
            bench = Bench(testbed, service)
            try:
                bench.check_life()
                bench.check_wrong()
            except Failure as failure:
                raise Failure(f"{service.group} {service.up}: {failure}") from failure
            print(f"passed: {service.group} {service.up}", flush=True)
        check_taken_ports(testbed)
        check_missing_packages(testbed)
        check_environment(testbed)
    check_hosts(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
