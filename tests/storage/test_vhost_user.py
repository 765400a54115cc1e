#!/usr/bin/env python3
"""`verbatim disk --vhost-user`: QEMU, unmodified, has a target's disk as its vhost-user-blk. A Linux in it writes,
reads, flushes and clears; what it has written is at the target by another path; a backend that is killed under load
loses nothing, and the machine goes on with the next one."""

import hashlib
import json
import os
import signal
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "programs"))

from served_disk import SECONDS, ServedDisk
from test_disk import Bench as OneTarget
from testbed import SKIPPED, Failure, Testbed, are_installed, option_parser, wait_until

MEGABYTES = 32
MEMORY = 512
MACHINE_SECONDS = 400
TOOLS = ("qemu-system-x86_64", "nbdkit", "nbdcopy", "busybox", "blkdiscard")


class Backend:
    """The disk as a device; its command prints QEMU's options."""

    def __init__(self, bench):
        self.path = f"{bench.testbed.folder}/vhost"
        self.program = bench.testbed.start(
            "b", [f"{bench.testbed.build}/bin/verbatim", "disk", bench.url, "--vhost-user", self.path])
        wait_until(lambda: "vhost-user-blk-pci" in self.program.output() or self.program.ended(), SECONDS,
                   "QEMU's options")
        lines = [line for line in self.program.output().splitlines() if "vhost-user-blk-pci" in line]
        if not lines:
            raise Failure(f"no options in:\n{self.program.output()}")
        self.options = lines[0].replace("SIZE", f"{MEMORY}M")
        if os.stat(self.path).st_mode & 0o777 != 0o600:
            raise Failure("others may connect")

    def end(self):
        self.program.process.send_signal(signal.SIGTERM)
        self.program.expect_success(SECONDS)
        if os.path.exists(self.path):
            raise Failure("the socket is left behind")


class Machine:
    """A context manager: QEMU with the guest's script, until that has ended."""

    def __init__(self, bench, kernel, options):
        self.share = f"{bench.testbed.folder}/share"
        os.makedirs(self.share, exist_ok=True)
        self.log_path = f"{bench.testbed.folder}/machine.log"
        self.command = [f"{HERE}/../peers/guest/machine.sh", kernel, self.share, f"{HERE}/vhost_user_guest.sh", self.share]
        self.environment = os.environ | {"QEMU_OPTIONS": options, "MEMORY": str(MEMORY),
                                         "SECONDS_MAX": str(MACHINE_SECONDS)}

    def __enter__(self):
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(["setpriv", "--pdeathsig", "TERM", "--", *self.command], stdout=log,
                                            stderr=subprocess.STDOUT, env=self.environment, start_new_session=True)
        return self

    def __exit__(self, kind, error, trace):
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        if error is not None:
            print(self.console())

    def console(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def tell(self, name):
        with open(f"{self.share}/{name}", "wb"):
            pass

    def wait_for(self, name):
        path = f"{self.share}/{name}"
        wait_until(lambda: os.path.exists(path) or self.process.poll() is not None, MACHINE_SECONDS, f"'{name}' of the guest")
        if not os.path.exists(path):
            raise Failure(f"the machine has ended before '{name}'")

    def expect_success(self):
        status = self.process.wait(MACHINE_SECONDS)
        if status != 0:
            raise Failure(f"the guest's script ended with status {status}")


def content_by_another_path(bench):
    """By NBD, in a session of its own."""
    there = f"{bench.testbed.folder}/content"
    with ServedDisk(bench.testbed, bench.url) as disk:
        disk.run("nbdcopy", "URI", there)
    with open(there, "rb") as file:
        return file.read()


def expect_equal(found, expected, what):
    if found != expected:
        raise Failure(f"{what}: {hashlib.md5(found).hexdigest()} is not {hashlib.md5(expected).hexdigest()}")


def answered(bench):
    """How many requests the disk of the machine has answered."""
    disks = json.loads(bench.verbatim("disk", "show", "--json"))
    return sum(disk.get("answered", 0) for disk in disks if disk.get("uri", "").startswith("vhost-user"))


def serves_a_machine(bench, kernel):
    bench.up()
    backend = Backend(bench)
    if f"vhost-user at {backend.path}" not in bench.verbatim("disk", "show"):
        raise Failure("show does not tell of it")
    with Machine(bench, kernel, backend.options) as machine:
        pattern = os.urandom(MEGABYTES << 20)
        with open(f"{machine.share}/pattern", "wb") as file:
            file.write(pattern)
        machine.wait_for("written")
        expect_equal(content_by_another_path(bench), pattern, "what the guest has written")
        with open(f"{machine.share}/facts", encoding="ascii") as facts:
            print("the guest's disk:", *facts.read().split("\n"), flush=True)
        machine.tell("seen")
        machine.wait_for("load")
        for _ in range(2):
            backend.program.kill()
            backend = Backend(bench)
            wait_until(lambda: answered(bench) > 200 or machine.process.poll() is not None, SECONDS,
                       "the machine to go on")
        machine.tell("back")
        machine.wait_for("outlived")
        expect_equal(content_by_another_path(bench), pattern, "what was written when the backend was killed")
        machine.tell("seen-again")
        machine.expect_success()
    content = content_by_another_path(bench)
    expect_equal(content[:1 << 20], bytes(1 << 20), "what was cleared")
    expect_equal(content[2 << 20:], pattern[2 << 20:], "what was not")
    backend.end()
    bench.down()


def refuses_what_cannot_be(bench):
    bench.up()
    program = f"{bench.testbed.build}/bin/verbatim"
    rows = ((("--sessions", "2"), "leave out --socket and --sessions"),
            (("--socket", "x"), "leave out --socket and --sessions"))
    for options, words in rows:
        refused = bench.testbed.start("b", [program, "disk", bench.url, "--vhost-user", "y", *options])
        if refused.wait(SECONDS) == 0 or words not in refused.output():
            raise Failure(f"'{words}' is not in:\n{refused.output()}")
    backend = Backend(bench)
    second = bench.testbed.start("b", [program, "disk", bench.url, "--vhost-user", backend.path])
    if second.wait(SECONDS) == 0 or "in use" not in second.output():
        raise Failure(f"two at one socket:\n{second.output()}")
    backend.end()
    bench.down()


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--protocol", default="roce", choices=("roce", "iwarp"))
    parser.add_argument("--scheme", default="nvme", choices=("iser", "nvme", "srp"))
    options = parser.parse_args()
    kernel = f"{os.path.abspath(options.build)}/guest_machine"
    has_kernel = os.path.isdir(f"{kernel}/kernel/lib")
    if not are_installed(*TOOLS) or not os.path.exists(f"{options.build}/lib/nbdkit-verbatim-plugin.so"):
        return SKIPPED
    with Testbed(options) as testbed:
        refuses_what_cannot_be(OneTarget(testbed, options))
    print("passed: refuses_what_cannot_be", flush=True)
    if not has_kernel:
        print(f"skipped: no kernel in {kernel}: tests/peers/guest/machine.sh downloads it")
        return SKIPPED
    with Testbed(options) as testbed:
        serves_a_machine(OneTarget(testbed, options), kernel)
    print("passed: serves_a_machine", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
