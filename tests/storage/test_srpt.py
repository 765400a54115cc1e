#!/usr/bin/env python3
"""An SRP target that Debian's targetcli sets up on a host of an InfiniBand fabric: ibsrpdm and srp_daemon find it,
initiators use its units, and what changes is seen by those who are logged in."""

import ipaddress
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fabric"))

from fabricbed import TRIANGLE, FabricBed, HostsTestbed
from served_disk import NbdDisk, ServedDisk
from test_srp_fabric import HOSTS, FabricBench
from testbed import SKIPPED, Failure, are_installed, option_parser, wait_until

SECONDS = 120
REFUSED = 3
PLUGIN = "lib/nbdkit-verbatim-plugin.so"


class SrptBench(FabricBench):
    """targetcli on H1; initiators on H4."""

    def __init__(self, testbed, bed):
        super().__init__(testbed, bed)
        self.home = f"{testbed.folder}/home"
        os.mkdir(self.home)
        for node in HOSTS:
            testbed.set_variables(node, HOME=self.home, XDG_CONFIG_HOME=f"{self.home}/.config")
        other = ipaddress.IPv6Address(bed.hosts()["H4"]["gid"]).packed.hex()
        self.initiator = f"ib.{'0' * 16}{other[16:]}"
        self.target = f"/srpt/ib.{self.gid}"

    def on_a(self, *argv):
        program = self.testbed.start("a", list(argv))
        if program.wait(SECONDS) != 0:
            raise Failure(f"{' '.join(argv)}:\n{program.output()}")
        return program.output()

    def targetcli(self, *words):
        return self.on_a("targetcli", *words)

    def own_line(self):
        return self.line(self.guid, self.guid)

    def served(self, lun):
        return ServedDisk(self.testbed, f"srp://{self.own_line().strip()}/{lun}")

    def wait_for_sessions(self, count):
        wait_until(lambda: len(self.show()["srp"]["initiators"]) == count, SECONDS, f"{count} sessions")

    def disks_of_programs(self):
        """Served on H4, by name."""
        listed = json.loads(self.bed.run("H4", f"{self.testbed.build}/bin/verbatim", "disk", "list", "--json"))
        return {one["name"]: one for one in listed}

    def wait_until_disk(self, is_there):
        def is_so():
            listed = json.loads(self.bed.run("H4", f"{self.testbed.build}/bin/verbatim", "disk", "list", "--json"))
            return [one["is_there"] for one in listed] == [is_there]
        wait_until(is_so, SECONDS, f"a disk that is there: {is_there}")


def is_found_as_soon_as_it_is_made(bench):
    """Who may log in is another question; it is not enabled yet, either."""
    bench.targetcli("/backstores/ramdisk", "create", "disk0", "16M")
    if bench.find("ibsrpdm", "-c") != "":
        raise Failure("a target is found that nobody has made")
    bench.targetcli("/srpt", "create", f"ib.{bench.gid}")
    bench.wait_until_found(bench.own_line())
    if bench.find("srp_daemon", "-o", "-c", "-a", "-i", "verbatim0", "-p", "1") != bench.own_line():
        raise Failure("srp_daemon does not print the same")
    bench.disks(REFUSED, 1, bench.own_line())
    bench.expect_incident("does not admit initiator")


def is_a_disk_by_acl(bench):
    bench.targetcli(f"{bench.target}/luns", "create", "/backstores/ramdisk/disk0")
    bench.targetcli(f"{bench.target}/acls", "create", bench.initiator)
    if "1 sessions" not in bench.disks(0, 100, bench.own_line()):
        raise Failure("not in one session")
    bench.wait_for_sessions(0)


def srp_daemon_logs_in(bench):
    """The disk outlives srp_daemon, which then sees that it is connected."""
    daemon = ("srp_daemon", "-o", "-i", "verbatim0", "-p", "1")
    bench.targetcli("/backstores/ramdisk", "create", "disk5", "4M")
    bench.targetcli(f"{bench.target}/luns", "create", "/backstores/ramdisk/disk5", "5")
    bench.find(*daemon, "-e")
    disks = bench.disks_of_programs()
    if sorted(disks) != ["H4-host0", "H4-host0-lun5"] or not all(disk["is_there"] for disk in disks.values()):
        raise Failure(f"srp_daemon -e has made {disks}")
    for name, size in (("H4-host0", 16 << 20), ("H4-host0-lun5", 4 << 20)):
        NbdDisk(bench.testbed, disks[name]["uri"]).is_copied_both_ways(size)
    bench.wait_for_sessions(1)  # Both are channels of one.
    if bench.find(*daemon, "-c") != "" or bench.find(*daemon, "-c", "-a") != bench.own_line():
        raise Failure("srp_daemon does not see that it is connected")
    bench.find(*daemon, "-e", "-a")
    add_target = "/sys/class/infiniband_srp/srp-verbatim0-1/add_target"
    for line, words in ((bench.own_line().strip(), "File exists"), ("nonsense", "Invalid argument"),
                        (bench.line("1".zfill(16), bench.guid).strip(), "Connection reset by peer")):
        text = bench.find("bash", "-c", f"(echo {line} > {add_target}) 2>&1 || true")
        if words not in text:
            raise Failure(f"add_target says of {line}: {text}")
    bench.find("bash", "-c", "echo 1 > /sys/class/srp_remote_ports/port-0:1/delete")
    if bench.disks_of_programs() or bench.find(*daemon, "-c") != bench.own_line():
        raise Failure("it is still logged in")
    bench.targetcli(f"{bench.target}/luns", "delete", "lun5")
    bench.targetcli("/backstores/ramdisk", "delete", "disk5")


def changes_under_a_session(bench):
    """Units come and go; without its ACL, or a target that is enabled, a session ends, and it is back with them."""
    with bench.served(0) as disk:
        disk.is_copied_both_ways(16 << 20)
        bench.targetcli("/backstores/fileio", "create", "file0", f"{bench.home}/file0", "8M")
        bench.targetcli(f"{bench.target}/luns", "create", "/backstores/fileio/file0", "7")
        disk.qemu_io("write -P 7 0 64k", "read -P 7 0 64k")
        bench.wait_for_sessions(1)
        bench.targetcli(f"{bench.target}/acls", "delete", bench.initiator)
        bench.wait_until_disk(False)
        bench.expect_incident("admit")  # Its end, or its next login.
        bench.targetcli(f"{bench.target}/acls", "create", bench.initiator)
        bench.wait_until_disk(True)
        enable = f"/sys/kernel/config/target/srpt/0x{bench.gid}/tpgt_1/enable"
        bench.on_a("bash", "-c", f"echo 0 > {enable}")
        bench.wait_until_disk(False)
        bench.on_a("bash", "-c", f"echo 1 > {enable}")
        bench.wait_until_disk(True)
        disk.qemu_io("read -P 7 0 64k")
    with bench.served(7) as disk:
        disk.qemu_io("write -P 9 0 64k", "flush")
    with open(f"{bench.home}/file0", "rb") as file:
        if file.read(65536) != b"\x09" * 65536:
            raise Failure("what was written is not in the file")
    bench.targetcli(f"{bench.target}/luns", "delete", "lun7")
    program = bench.testbed.start("b", [f"{bench.testbed.build}/bin/verbatim", "disk",
                                        f"srp://{bench.own_line().strip()}/7"])
    if program.wait(SECONDS) == 0:
        raise Failure("a unit that was removed is served")


def is_gone_when_it_is_deleted(bench):
    with bench.served(0):
        bench.targetcli("saveconfig")
        bench.targetcli("/srpt", "delete", f"ib.{bench.gid}")
        bench.wait_until_disk(False)
        bench.wait_until_found("")
        bench.on_a("targetctl", "restore")
        bench.wait_until_disk(True)
    bench.wait_until_found(bench.own_line())
    bench.targetcli("clearconfig", "confirm=True")
    bench.wait_until_found("")
    bench.down()


PARTS = (is_found_as_soon_as_it_is_made, is_a_disk_by_acl, srp_daemon_logs_in, changes_under_a_session,
         is_gone_when_it_is_deleted)


def main():
    options = option_parser(__doc__).parse_args()
    needed = are_installed("opensm", "ibsrpdm", "srp_daemon", "targetcli", "targetctl", "nbdkit", "nbdcopy", "qemu-io")
    if not needed or not os.path.exists(f"{options.build}/{PLUGIN}"):
        return SKIPPED
    with FabricBed(options) as bed:
        bed.up(TRIANGLE, "--manager", "opensm")
        bed.wait_until_active("H1", "H2", "H4")
        with HostsTestbed(options, bed, HOSTS) as testbed:
            bench = SrptBench(testbed, bed)
            for part in PARTS:
                part(bench)
                print(f"passed: {part.__name__}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
