#!/usr/bin/env python3
"""Asymmetric access of two portal groups to one disk: targetcli sets the states of their port groups, libiscsi asks and
changes them, and `verbatim disk` goes by the best path."""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))

from served_disk import SECONDS, TOOLS, ServedDisk
from test_targetcli import IQN, OPEN, TPG, Bench as Targetcli
from testbed import SKIPPED, Failure, Testbed, are_installed, option_parser, wait_until

DISK, SECOND = "/backstores/ramdisk/disk0", f"/iscsi/{IQN}/tpg2"
READY, REPORT, SET = "000000000000", "a30a00000000000000ff0000", "a40a0000000000000008{:02x}00"
OPTIMIZED, NON_OPTIMIZED, STANDBY = 0, 1, 2
FOLDER = "/sys/kernel/config/target/core/rd_mcp_0/disk0/alua"
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "scsi_command.py")


class Bench(Targetcli):
    """Group 0 has the first portal group, group 16 the second one, each with a portal of its own."""

    def make(self):
        self.make_disk()
        self.targetcli(f"/iscsi/{IQN}", "create", "2")
        self.targetcli(f"{SECOND}/luns", "create", DISK)
        address = self.testbed.address("a")
        for group in (TPG, SECOND):
            self.targetcli(f"{group}/portals", "delete", "0.0.0.0", "3260")
        self.portals = [f"{address}:3260", f"{address}:{self.testbed.free_port()}"]
        for group, portal in zip((TPG, SECOND), self.portals):
            self.targetcli(f"{group}/portals", "create", *portal.split(":"))
            self.targetcli(f"{group}/portals/{portal}", "enable_iser", "true")
            self.targetcli(group, "set", "attribute", *OPEN)
            self.targetcli(group, "enable")
        self.targetcli(f"{DISK}/alua", "create", "second", "16")
        self.targetcli(f"{SECOND}/luns/lun0", "set", "alua", "alua_tg_pt_gp_name=second")

    def set_states(self, first, second):
        self.shell(f"cd {FOLDER}; echo {first} > default_tg_pt_gp/alua_access_state; echo {second} > second/alua_access_state")

    def command(self, portal, cdb, *options):
        return self.expect("b", sys.executable, SCRIPT, self.portals[portal], IQN, cdb, *options).strip()

    def expect_answer(self, expected, portal, cdb, *options):
        found = self.command(portal, cdb, *options)
        if found != expected:
            raise Failure(f"{cdb} by portal {portal}: {found}, expected {expected}")

    def paths(self):
        environment = self.testbed.environment()
        done = subprocess.run([f"{self.testbed.build}/bin/verbatim", "disk", "show", "--json"], env=environment,
                              check=True, capture_output=True, text=True, timeout=SECONDS)
        return [path["state"] for path in json.loads(done.stdout)[0]["paths"]]

    def wait_for_paths(self, *expected):
        wait_until(lambda: self.paths() == list(expected), SECONDS, f"paths {expected}")


def tells_initiators(bench):
    """States as targetcli sets them; an initiator's changes are seen in the folder."""
    bench.set_states(OPTIMIZED, STANDBY)
    bench.expect_answer("status 0", 0, READY)
    bench.expect_answer("status 2 2/040b", 1, READY)
    groups = "00cf000000000001" "00000001" "02cf001000020001" "00000002"
    bench.expect_answer(f"status 0 00000018{groups}", 1, REPORT, "--in-bytes", "255")
    bench.expect("b", "iscsi-inq", "-e", "1", "-c", "131", f"iscsi://{bench.portals[0]}/{IQN}/0",
                 words=("TARGET_PORT_GROUP", "RELATIVE_TARGET_PORT"))
    bench.expect_answer("status 0", 1, SET.format(0), "--out", "00000000" "00000010")
    bench.expect_answer("status 0", 1, READY)
    bench.shell(f"cat {FOLDER}/second/alua_access_state {FOLDER}/second/alua_access_status",
                words=("0\n", "Altered by Explicit STPG"))
    bench.targetcli(f"{DISK}/alua/second", "set", "alua", "alua_access_type=1")
    bench.expect_answer("status 2 5/2000", 1, SET.format(0), "--out", "00000000" "02000010")


def the_best_path_is_taken(bench):
    urls = [f"iser://{portal}/{IQN}/0" for portal in bench.portals]
    bench.set_states(OPTIMIZED, STANDBY)
    with ServedDisk(bench.testbed, *urls) as disk:
        bench.wait_for_paths("optimized", "inaccessible")
        disk.is_verified()

        def states_change():
            for first, second, *paths in ((STANDBY, OPTIMIZED, "inaccessible", "optimized"),
                                          (NON_OPTIMIZED, OPTIMIZED, "non-optimized", "optimized"),
                                          (OPTIMIZED, STANDBY, "optimized", "inaccessible")):
                bench.set_states(first, second)
                bench.wait_for_paths(*paths)
        disk.is_verified_over(states_change)


def main():
    options = option_parser(__doc__).parse_args()
    if not are_installed("targetcli", "iscsi-inq", *TOOLS):
        return SKIPPED
    with Testbed(options) as testbed:
        bench = Bench(testbed)
        bench.verbatim("up")
        try:
            bench.make()
            for part in (tells_initiators, the_best_path_is_taken):
                part(bench)
                print(f"passed: {part.__name__}", flush=True)
        finally:
            subprocess.run([f"{testbed.build}/bin/verbatim", "target", "down", "--node", "a"], check=False,
                           env=testbed.environment(), capture_output=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
