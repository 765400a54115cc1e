#!/usr/bin/env python3
"""Debian's nvme-cli, unmodified: what it connects to is a disk of Verbatim's, and it says what it says with Linux."""

import json
import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))

from served_disk import SECONDS, NbdDisk
from testbed import SKIPPED, Failure, Testbed, are_installed, option_parser, wait_until

NQN, OTHER = "nqn.2026-01.com.test:disk", "nqn.2026-01.com.test:other"
HOST, STRANGER = "nqn.2026-01.com.test:host", "nqn.2026-01.com.test:stranger"
HOST_ID = "22222222-2222-2222-2222-222222222222"
ROOT = "/sys/kernel/config/nvmet"
REFUSED = "could not add new controller: failed to write to nvme-fabrics device\n"
NOT_FOUND = "failed to add controller, error failed to write to nvme-fabrics device\n"
WRITE_FAILED = "Failed to write to /dev/nvme-fabrics: "


class Bench:
    """A target on node a, nvme-cli on node b."""

    def __init__(self, testbed, protocol):
        self.testbed, self.port = testbed, testbed.free_port()
        self.home = f"{testbed.folder}/home"
        os.mkdir(self.home)
        self.variables = {"HOME": self.home, "XDG_CONFIG_HOME": f"{self.home}/.config",
                          "VERBATIM_PROTOCOL": protocol}
        for node in ("a", "b"):
            testbed.set_variables(node, **self.variables)
        self.where = ("-t", "rdma", "-a", testbed.address("a"), "-s", str(self.port))

    def verbatim(self, *words):
        done = subprocess.run([f"{self.testbed.build}/bin/verbatim", *words],
                              env=self.testbed.environment() | self.variables, check=False, capture_output=True,
                              text=True, timeout=SECONDS)
        if done.returncode != 0:
            raise Failure(f"verbatim {' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def shell(self, script, node="a", status=0):
        program = self.testbed.start(node, ["bash", "-c", f"set -e; cd {ROOT if node == 'a' else '/'}; {script}"])
        if program.wait(SECONDS) != status:
            raise Failure(f"{script}:\n{program.output()}")
        return program.output()

    def nvme(self, *words, status=0, says=None):
        program = self.testbed.start("b", ["nvme", *words])
        found, output = program.wait(SECONDS), program.output()
        if found != status or (says is not None and output != says):
            raise Failure(f"nvme {' '.join(words)}: status {found}, expected {status} and '{says}' in:\n{output}")
        return output

    def connect(self, nqn=NQN, host=HOST, status=0, says="", more=()):
        return self.nvme("connect", *self.where, "-n", nqn, "--hostnqn", host, "--hostid", HOST_ID, *more,
                         status=status, says=says)

    def listed(self):
        return json.loads(self.nvme("list", "-o", "json") or '{"Devices": []}')["Devices"]

    def disks(self):
        return {one["name"]: one for one in json.loads(self.verbatim("disk", "list", "--json"))}

    def disk(self, name):
        return NbdDisk(self.testbed, self.disks()[name]["uri"])

    def hosts(self):
        return json.loads(self.verbatim("target", "show", "--node", "a", "--json"))["hosts"]

    def make_target(self):
        self.verbatim("target", "up", "--node", "a", "--address", self.testbed.address("a"))
        self.make_tree()

    def make_tree(self):
        self.shell(f"""
            mkdir hosts/{HOST} subsystems/{NQN} ports/1; ln -s {ROOT}/hosts/{HOST} subsystems/{NQN}/allowed_hosts/{HOST}
            for n in 1 3; do
              truncate -s 16M {self.home}/space$n; mkdir subsystems/{NQN}/namespaces/$n
              echo -n {self.home}/space$n > subsystems/{NQN}/namespaces/$n/device_path
              echo 3333333$n-3333-3333-3333-333333333333 > subsystems/{NQN}/namespaces/$n/device_uuid
              echo 1 > subsystems/{NQN}/namespaces/$n/enable
            done
            echo rdma > ports/1/addr_trtype; echo ipv4 > ports/1/addr_adrfam
            echo {self.testbed.address('a')} > ports/1/addr_traddr; echo {self.port} > ports/1/addr_trsvcid
            ln -s {ROOT}/subsystems/{NQN} ports/1/subsystems/{NQN}""")


def finds_and_is_refused(bench):
    """What the kernel makes nvme-cli say, word for word, of each fault."""
    bench.make_target()
    nobody = ("-t", "rdma", "-a", bench.testbed.address("a"), "-s", str(bench.testbed.free_port()))
    found = bench.nvme("discover", *bench.where, "--hostnqn", HOST)
    if f"subnqn:  {NQN}\n" not in found or f"trsvcid: {bench.port}\n" not in found:
        raise Failure(f"discover does not find the subsystem:\n{found}")
    reset, failed = f"{WRITE_FAILED}Connection reset by peer\n", f"{WRITE_FAILED}Input/output error\n"
    bench.nvme("discover", *nobody, status=1, says=reset + NOT_FOUND)
    bench.nvme("connect", *nobody, "-n", NQN, status=1, says=reset + REFUSED)
    bench.connect(nqn=OTHER, status=1, says=failed + REFUSED)
    bench.connect(host=STRANGER, status=1, says=failed + REFUSED)
    bench.connect(more=("-Q", "5"), status=1,
                  says=f"{WRITE_FAILED}Invalid argument\ncould not add new controller: invalid arguments/configuration\n")
    if bench.listed() or bench.disks():
        raise Failure("a refused connection has left a disk")


def connects_disks(bench):
    """They outlive the program; both its namespaces are disks, and devices of nvme-cli."""
    bench.connect()
    bench.connect(status=1, says="already connected\n")
    devices = {one["DevicePath"]: one for one in bench.listed()}
    if sorted(devices) != ["/dev/nvme0n1", "/dev/nvme0n2"] or devices["/dev/nvme0n2"]["NameSpace"] != 3:
        raise Failure(f"list has {devices}")
    if sorted(bench.disks()) != ["b-nvme0n1", "b-nvme0n2"]:
        raise Failure(f"disks are {bench.disks()}")
    bench.disk("b-nvme0n1").is_copied_both_ways(16 << 20)
    bench.disk("b-nvme0n2").qemu_io("write -P 9 0 64k", "flush")
    with open(f"{bench.home}/space3", "rb") as file:
        if file.read(65536) != b"\x09" * 65536:
            raise Failure("what was written is not in the file")
    place = f"traddr={bench.testbed.address('a')},trsvcid={bench.port}"
    bench.nvme("list-subsys", says=f"nvme-subsys0 - NQN={NQN}\n\\\n +- nvme0 rdma {place} live \n")
    for words, expected in ((("id-ctrl", "/dev/nvme0"), f"subnqn    : {NQN}"),
                            (("id-ns", "/dev/nvme0n2"), "nsze    : 0x1000"),
                            (("id-ns", "/dev/nvme0", "-n", "3"), "lbads:12"),
                            (("smart-log", "/dev/nvme0"), "media_errors"),
                            (("list-ns", "/dev/nvme0"), "[   1]:0x3"),
                            (("ns-descs", "/dev/nvme0", "-n", "3"), "33333333-3333-3333-3333-333333333333"),
                            (("get-feature", "/dev/nvme0", "-f", "7"), "value:0x007f007f"),
                            (("get-ns-id", "/dev/nvme0n2"), "namespace-id:3")):
        if expected not in bench.nvme(*words):
            raise Failure(f"{words} do not say {expected}")
    bench.nvme("get-log", "/dev/nvme0", "--log-id=0xc0", "--log-len=512", status=1)
    types = bench.shell("[ -c /dev/nvme0 ] && [ -b /dev/nvme0n1 ] && [ -c /dev/ng0n1 ]; ls /sys/class/nvme", "b")
    if types != "nvme0\n":
        raise Failure(f"/sys/class/nvme has {types}")


def follows_the_target(bench):
    """Namespaces that come, a reset, a target that is killed and comes back."""
    bench.shell(f"""cd subsystems/{NQN}/namespaces; mkdir 4; truncate -s 8M {bench.home}/space4
        echo -n {bench.home}/space4 > 4/device_path; echo 1 > 4/enable""")
    bench.nvme("ns-rescan", "/dev/nvme0")
    bench.disk("b-nvme0n3").is_copied_both_ways(8 << 20)
    bench.nvme("reset", "/dev/nvme0")
    bench.shell("[ $(cat /sys/class/nvme/nvme0/state) = live ]", "b")
    status = json.loads(bench.verbatim("target", "show", "--node", "a", "--json"))
    os.kill(status["process"], signal.SIGKILL)
    wait_until(lambda: not os.path.exists(f"/proc/{status['process']}"), SECONDS, "the target's end")

    def has_state(state):
        return state in bench.nvme("list-subsys")
    wait_until(lambda: has_state("connecting"), SECONDS, "the loss to be seen")
    bench.make_target()
    wait_until(lambda: has_state("live"), SECONDS, "the controller to be back")
    bench.disk("b-nvme0n2").qemu_io("read -P 9 0 64k")


def says_what_is_the_kernels(bench):
    """open-iscsi's login cannot be ours."""
    program = bench.testbed.start("b", ["iscsiadm", "--version"])
    program.expect_success(SECONDS)
    if "verbatim disk iser://HOST/IQN/LUN" not in program.output():
        raise Failure(f"iscsiadm is started without a word: {program.output()}")


def disconnects(bench):
    bench.nvme("disconnect", "-n", NQN, says=f"NQN:{NQN} disconnected 1 controller(s)\n")
    if bench.listed() or bench.disks() or bench.hosts():
        raise Failure("something is left of the connection")
    bench.nvme("id-ctrl", "/dev/nvme0", status=1)
    bench.nvme("connect-all", *bench.where, "--hostnqn", HOST, "--hostid", HOST_ID)
    # Its first controller is the discovery's, as with the kernel.
    if sorted(one["DevicePath"] for one in bench.listed()) != ["/dev/nvme1n1", "/dev/nvme1n2"]:
        raise Failure(f"connect-all has made {bench.listed()}")
    bench.nvme("disconnect", "-d", "nvme1")
    bench.connect(more=("-i", "1", "-Q", "16", "-k", "5", "-l", "600", "-c", "10"))
    bench.nvme("disconnect-all")
    if bench.listed() or bench.disks():
        raise Failure("disconnect-all has left a disk")
    folder = re.sub(r"/disk\+.*", "", f"{bench.testbed.folder}/verbatim")

    def is_over():
        return not [name for _, _, names in os.walk(folder) for name in names if "+initiator+" in name]
    wait_until(is_over, SECONDS, "the keeper of logins to end")


PARTS = (finds_and_is_refused, connects_disks, follows_the_target, disconnects, says_what_is_the_kernels)


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--protocol", default="roce", choices=("roce", "iwarp"))
    options = parser.parse_args()
    if not are_installed("nvme", "iscsiadm", "nbdkit", "nbdcopy", "qemu-io", "qemu-img") or \
            not os.path.exists(f"{options.build}/lib/nbdkit-verbatim-plugin.so"):
        return SKIPPED
    with Testbed(options) as testbed:
        bench = Bench(testbed, options.protocol)
        try:
            for part in PARTS:
                part(bench)
                print(f"passed: {part.__name__}", flush=True)
        finally:
            for words in (["disk", "down", "--node", "b"], ["target", "down", "--node", "a"]):
                subprocess.run([f"{testbed.build}/bin/verbatim", *words], check=False, capture_output=True,
                               env=testbed.environment() | bench.variables)
    return 0


if __name__ == "__main__":
    sys.exit(main())
