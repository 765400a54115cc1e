#!/usr/bin/env python3
"""Debian's targetcli, unmodified, sets up a node's target, and libiscsi and QEMU use what it made."""

import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))

from testbed import SKIPPED, Failure, Testbed, are_installed, option_parser, wait_until

RECORDED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recorded")
IQN = "iqn.2026-01.com.test:disk"
TPG = f"/iscsi/{IQN}/tpg1"
INITIATOR, STRANGER = "iqn.2026-01.com.test:i1", "iqn.2026-01.com.test:i2"
NQN = "nqn.2026-01.test:disk"
OPEN = "generate_node_acls=1 demo_mode_write_protect=0 authentication=0".split()
SECONDS = 120


class Bench:
    """A target on node a, initiators on node b."""

    def __init__(self, testbed):
        self.testbed = testbed
        self.home = f"{testbed.folder}/home"
        os.mkdir(self.home)
        for node in ("a", "b"):
            testbed.set_variables(node, HOME=self.home, XDG_CONFIG_HOME=f"{self.home}/.config")
        self.place = f"{testbed.address('a')}:3260"

    def run(self, node, *argv):
        """Returns the exit status and the output."""
        program = self.testbed.start(node, list(argv))
        return program.wait(SECONDS), program.output()

    def expect(self, node, *argv, status=0, words=()):
        found, output = self.run(node, *argv)
        if found != status or any(word not in output for word in words):
            raise Failure(f"{' '.join(argv)}: status {found}, expected {status} and {words} in:\n{output}")
        return output

    def targetcli(self, *words):
        return self.expect("a", "targetcli", *words)

    def shell(self, script, status=0, words=()):
        return self.expect("a", "bash", "-c", script, status=status, words=words)

    def make_disk(self):
        self.targetcli("/backstores/ramdisk", "create", "disk0", "32M")
        self.targetcli("/iscsi", "create", IQN)
        self.targetcli(f"{TPG}/luns", "create", "/backstores/ramdisk/disk0")

    def verbatim(self, *words):
        environment = self.testbed.environment() | {"HOME": self.home, "XDG_CONFIG_HOME": f"{self.home}/.config"}
        done = subprocess.run([f"{self.testbed.build}/bin/verbatim", "target", words[0],
                               *self.testbed.run_options("a"), *words[1:]], env=environment, check=False,
                              capture_output=True, text=True, timeout=SECONDS)
        if done.returncode != 0:
            raise Failure(f"verbatim target {' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def show(self):
        return json.loads(self.verbatim("show", "--json"))

    def url(self, lun=0, carrier="iscsi", who=""):
        return f"{carrier}://{who}{self.place}/{IQN}/{lun}"

    def wait_until_empty(self):
        wait_until(lambda: self.show()["connections"] == 0, SECONDS, "the target to have no connection")


def makes_a_disk(bench):
    """Without a word to Verbatim: `verbatim run -- targetcli` starts the node's target."""
    bench.make_disk()
    bench.targetcli(TPG, "set", "attribute", *OPEN)
    bench.expect("b", "iscsi-ls", "-s", f"iscsi://{bench.place}", words=(IQN, "Lun:0"))
    bench.expect("b", "iscsi-inq", bench.url(), words=("LIO-ORG", "disk0"))
    bench.expect("b", "qemu-io", "-f", "raw", "-c", "write -P 7 0 256k", "-c", "flush", bench.url())
    bench.targetcli(f"{TPG}/portals", "delete", "0.0.0.0", "3260")
    bench.expect("b", "iscsi-ls", f"iscsi://{bench.place}", status=10)
    bench.targetcli(f"{TPG}/portals", "create", bench.testbed.address("a"))
    bench.targetcli(f"{TPG}/portals/{bench.place}", "enable_iser", "true")
    for carrier in ("iser", "iscsi"):
        bench.expect("b", "qemu-io", "-f", "raw", "-c", "read -P 7 0 256k", bench.url(carrier=carrier))
    listens = bench.show()["listens"]
    if f"TCP {bench.place}" not in listens or f"iSER {bench.place}" not in listens:
        raise Failure(f"show tells: {listens}")


def listens_at_all_of_a_node(bench):
    """A portal at :: is one at each address of the node, and at no other of the machine."""
    port = str(bench.testbed.free_port())
    own = f"TCP {bench.testbed.address('a')}:{port}"
    bench.targetcli(f"{TPG}/portals", "create", "::0", port)
    if own not in bench.show()["listens"] or "TCP [" in bench.show()["listens"]:
        raise Failure(f"show tells: {bench.show()['listens']}")
    bench.targetcli(f"{TPG}/portals", "delete", "::0", port)
    if not os.path.exists("/proc/net/if_inet6"):
        return
    six, program = ["--node", "six", "--address", "::1"], f"{bench.testbed.build}/bin/verbatim"
    environment = bench.testbed.environment() | {"HOME": bench.home, "XDG_CONFIG_HOME": f"{bench.home}/.config"}

    def on_six(*words):
        done = subprocess.run([program, *words], env=environment, check=False, capture_output=True, text=True,
                              timeout=SECONDS)
        if done.returncode != 0:
            raise Failure(f"{words}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout
    portals = ["run", *six, "--", "targetcli", f"{TPG}/portals"]
    try:
        on_six("run", *six, "--", "targetcli", "/iscsi", "create", IQN)
        on_six(*portals, "delete", "0.0.0.0", "3260")
        on_six(*portals, "create", "::0", port)
        if f"TCP [::1]:{port}" not in on_six("target", "show", *six):
            raise Failure(f"the node at ::1 tells: {on_six('target', 'show', *six)}")
    finally:
        on_six("target", "down", *six)


def serves_what_changes(bench):
    """Units come and go under a session that stays."""
    reader = bench.testbed.start("b", ["qemu-io", "-f", "raw", "-c", "read 0 4096", "-c", "sleep 60000", bench.url()])
    wait_until(lambda: bench.show()["iscsi"]["initiators"], SECONDS, "a session")
    dynamic = f"/sys/kernel/config/target/iscsi/{IQN}/tpgt_1/dynamic_sessions"
    bench.expect("a", "cat", dynamic, words=("iqn.",))
    bench.targetcli("/backstores/fileio", "create", "file0", f"{bench.home}/file0", "16M")
    bench.targetcli(f"{TPG}/luns", "create", "/backstores/fileio/file0")
    bench.expect("b", "qemu-io", "-f", "raw", "-c", "write -P 9 0 64k", "-c", "write -z 1M 64k", "-c", "flush",
                 bench.url(1))
    with open(f"{bench.home}/file0", "rb") as file:
        if file.read(65536) != b"\x09" * 65536:
            raise Failure("what was written is not in the file")
    bench.targetcli(f"{TPG}/luns", "delete", "lun0")
    bench.targetcli("/backstores/ramdisk", "delete", "disk0")
    if bench.show()["connections"] != 1:
        raise Failure("the session has ended")
    bench.targetcli(TPG, "disable")
    bench.expect("b", "iscsi-inq", bench.url(1), status=10)
    bench.wait_until_empty()
    bench.targetcli(TPG, "enable")
    bench.expect("b", "qemu-io", "-f", "raw", "-c", "read -P 9 0 64k", "-c", "read -P 0 1M 64k", bench.url(1))
    reader.kill()


def admits_by_acl(bench):
    """An ACL has a map of its own, and secrets."""
    bench.targetcli(TPG, "set", "attribute", "generate_node_acls=0", "authentication=1")
    bench.expect("b", "iscsi-inq", "-i", STRANGER, bench.url(1), status=10)
    bench.targetcli(f"{TPG}/acls", "create", INITIATOR, "add_mapped_luns=false")
    bench.targetcli(f"{TPG}/acls/{INITIATOR}", "create", "5", "/backstores/fileio/file0", "write_protect=1")
    bench.expect("b", "iscsi-inq", "-i", INITIATOR, bench.url(5), status=10)
    bench.targetcli(f"{TPG}/acls/{INITIATOR}", "set", "auth", "userid=bob", "password=secretofbob12")
    bench.expect("b", "iscsi-inq", "-i", INITIATOR, bench.url(5, who="bob%secretofbob12@"), words=("file0",))
    bench.expect("b", "iscsi-inq", "-i", INITIATOR, bench.url(5, who="bob%secretofeve12@"), status=10)
    bench.expect("b", "iscsi-inq", "-i", STRANGER, bench.url(1, who="bob%secretofbob12@"), status=10)
    incidents = json.dumps(bench.show()["incidents"])
    for words in ("CHAP_R of user 'bob' is wrong", f"{STRANGER} is not admitted"):
        if words not in incidents:
            raise Failure(f"'{words}' is not in {incidents}")
    bench.wait_until_empty()


def keeps_what_is_saved(bench):
    """A target that is killed comes back with its disks; another user's machine keeps its own configuration."""
    bench.targetcli("saveconfig")
    if os.path.exists("/etc/rtslib-fb-target/saveconfig.json"):
        raise Failure("the machine's own configuration was written")
    process = bench.show()["process"]
    os.kill(process, 9)
    wait_until(lambda: not os.path.exists(f"/proc/{process}"), SECONDS, "the target's end")
    bench.verbatim("up")
    bench.expect("b", "iscsi-inq", "-i", INITIATOR, bench.url(5, who="bob%secretofbob12@"), words=("file0",))
    bench.verbatim("down")
    bench.targetcli("ls")
    bench.expect("a", "targetctl", "clear")
    bench.expect("a", "targetctl", "restore")
    bench.expect("b", "iscsi-inq", "-i", INITIATOR, bench.url(5, who="bob%secretofbob12@"), words=("file0",))
    bench.targetcli("clearconfig", "confirm=True")
    if bench.show()["listens"]:
        raise Failure(f"the target still listens: {bench.show()['listens']}")


def serves_nvme(bench):
    """The lines that administrators write for nvmet; a shell sees the kernel's errors."""
    port, root = bench.testbed.free_port(), "/sys/kernel/config/nvmet"
    bench.shell(f"""set -e
        truncate -s 16M {bench.home}/space; cd {root}; mkdir subsystems/{NQN} ports/1
        echo 1 > subsystems/{NQN}/attr_allow_any_host; mkdir subsystems/{NQN}/namespaces/1
        cd subsystems/{NQN}/namespaces/1; echo -n {bench.home}/space > device_path; echo 1 > enable; cd {root}/ports/1
        echo rdma > addr_trtype; echo ipv4 > addr_adrfam; echo {bench.testbed.address('a')} > addr_traddr
        echo {port} > addr_trsvcid; ln -s {root}/subsystems/{NQN} subsystems/{NQN}
        [ $(cat {root}/subsystems/{NQN}/namespaces/1/enable) = 1 ]""")
    place, host = f"{bench.testbed.address('a')}:{port}", "nqn.2026-01.test:host"
    program = f"{bench.testbed.build}/bin/nvme_host"
    bench.expect("b", program, "discover", place, host, words=(NQN,))
    bench.expect("b", program, "io", place, host, NQN, "rounds=1")
    for command, words in ((f"echo 5 > {root}/ports/1/addr_trsvcid", "Permission denied"),
                           (f"mkdir {root}/other", "Operation not permitted"),
                           (f"rmdir {root}/subsystems/{NQN}", "Device or resource busy"),
                           (f"echo x > {root}/subsystems/{NQN}/attr_version", "Invalid argument"),
                           (f"echo x | tee {root}/subsystems/{NQN}/attr_version", "Invalid argument")):
        bench.shell(command, status=1, words=(words,))
    bench.shell(f"rm {root}/ports/1/subsystems/{NQN}")
    bench.expect("b", program, "discover", place, host, status=3)


def serves_srp(bench):
    """targetcli's target by GID; a port of rdma_cm by the file that targetcli lacks."""
    gid = bench.shell("cat /sys/class/infiniband/*/ports/1/gids/0").strip().replace(":", "")
    other = bench.run("b", "cat", "/sys/class/infiniband/verbatim0/ports/1/gids/0")[1].strip().replace(":", "")
    guid = bench.shell("cat /sys/class/infiniband/*/node_guid").strip().replace(":", "")
    port, target, initiator = bench.testbed.free_port(), f"/srpt/ib.{gid}", f"ib.{'0' * 16}{other[16:]}"
    cm_port = "/sys/kernel/config/target/srpt/discovery_auth/rdma_cm_port"
    bench.targetcli("/backstores/ramdisk", "create", "disk1", "8M")
    bench.targetcli("/srpt", "create", f"ib.{gid}")
    bench.targetcli(f"{target}/luns", "create", "/backstores/ramdisk/disk1")
    bench.shell(f"echo {port} > {cm_port}")
    place = f"{bench.testbed.address('a')}:{port}"
    line, program = f"id_ext={guid},ioc_guid={guid},dest={place}", f"{bench.testbed.build}/bin/srp_disk"
    bench.expect("b", program, "1", line, status=3)
    bench.targetcli(f"{target}/acls", "create", initiator)
    bench.expect("b", program, "50", line, words=("8388608 bytes", "1 sessions"))
    if f":{port}" not in bench.show()["listens"]:
        raise Failure(f"show tells: {bench.show()['listens']}")
    bench.shell(f"echo {port} > {cm_port}; echo 0 > {cm_port}; [ $(cat {cm_port}) = 0 ]")
    if f":{port}" in bench.show()["listens"]:
        raise Failure(f"show tells: {bench.show()['listens']}")
    bench.targetcli("/srpt", "delete", f"ib.{gid}")
    bench.targetcli("/backstores/ramdisk", "delete", "disk1")
    if bench.show()["srp"]["ports"]:
        raise Failure("the port is still there")


def recorded_commands():
    """The commands of the session, each with what the kernel's target made targetcli say."""
    with open(f"{RECORDED}/targetcli.txt", encoding="utf-8") as file:
        text = file.read()
    for piece in re.split(r"^\$ targetcli ?", text, flags=re.M)[1:]:
        line, _, output = piece.partition("\n")
        yield line.split(), output


def sorted_lists(value):
    """The order of lists is that of a folder's entries; aliases are random."""
    if isinstance(value, dict):
        return {key: sorted_lists(item) for key, item in value.items() if key != "alias"}
    if isinstance(value, list):
        return sorted((sorted_lists(item) for item in value), key=lambda item: json.dumps(item, sort_keys=True))
    return value


def takes_the_kernels_configuration(bench, expected):
    """What the kernel's target has saved is restored by ours, and saved again as it was."""
    of_kernel, again = f"{bench.home}/out/kernel.json", f"{bench.home}/out/again.json"
    with open(of_kernel, "w", encoding="utf-8") as file:
        json.dump(expected, file)
    bench.expect("a", "targetctl", "clear")
    bench.expect("a", "targetctl", "restore", of_kernel)
    bench.targetcli("saveconfig", again)
    with open(again, encoding="utf-8") as file:
        if sorted_lists(json.load(file)) != sorted_lists(expected):
            raise Failure("the kernel's configuration is not saved as it was restored")
    bench.expect("a", "targetctl", "clear")


def answers_as_the_kernel(bench):
    """A recorded session: 67 commands, 752 lines, and the configuration that was saved."""
    gid = bench.shell("cat /sys/class/infiniband/*/ports/1/gids/0").strip().replace(":", "")
    names = {"HOME": bench.home, "DISKS": bench.home, "ADDRESS": bench.testbed.address("a"), "GID": gid,
             "OUT": f"{bench.home}/out"}

    def named(text):
        return re.sub("HOME|DISKS|ADDRESS|GID|OUT", lambda found: names[found[0]], text)
    os.makedirs(f"{bench.home}/out", exist_ok=True)
    first = f"{bench.home}/out/saveconfig-1.json"
    kept = f"{bench.home}/.config/verbatim/target/a/rtslib"
    for path in (f"{bench.home}/.targetcli/prefs.bin", f"{kept}/saveconfig.json"):
        if os.path.exists(path):
            os.unlink(path)
    shutil.rmtree(f"{kept}/backup")
    for words, expected in recorded_commands():
        status, output = bench.run("a", "targetcli", *(named(word) for word in words))
        if words == ["saveconfig"] and not os.path.exists(first):
            shutil.copy(f"{kept}/saveconfig.json", first)
        output = re.sub(r"\.{3,}", "...", output + f"[status {status}]\n")
        output = re.sub(r"^alias: [0-9a-f]+$", "alias: *", output, flags=re.M)
        output = re.sub(r"'ramdisk:\w+' exist", "'ramdisk:*' exist", output)
        if output != named(expected):
            raise Failure(f"targetcli {' '.join(words)} says:\n{output}and with the kernel:\n{named(expected)}")
    with open(f"{RECORDED}/saveconfig.json", encoding="utf-8") as file:
        expected = json.loads(named(file.read()))
    with open(first, encoding="utf-8") as file:
        if sorted_lists(json.load(file)) != sorted_lists(expected):
            raise Failure("what was saved is not what the kernel's target saves")
    takes_the_kernels_configuration(bench, expected)


PARTS = (makes_a_disk, listens_at_all_of_a_node, serves_what_changes, admits_by_acl, keeps_what_is_saved, serves_nvme,
         serves_srp, answers_as_the_kernel)


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--part", action="append", choices=[part.__name__ for part in PARTS])
    options = parser.parse_args()
    if not are_installed("targetcli", "targetctl", "iscsi-inq", "qemu-io"):
        return SKIPPED
    with Testbed(options) as testbed:
        bench = Bench(testbed)
        try:
            if options.part is not None:
                bench.verbatim("up")
            for part in PARTS:
                if options.part is None or part.__name__ in options.part:
                    part(bench)
                    print(f"passed: {part.__name__}", flush=True)
        finally:
            subprocess.run([f"{testbed.build}/bin/verbatim", "target", "down", "--node", "a"], check=False,
                           env=testbed.environment(), capture_output=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
