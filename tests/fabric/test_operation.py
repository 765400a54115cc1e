#!/usr/bin/env python3
"""What operators of real fabrics do with Debian's tools: all flows of osmtest, partitions of limited members, QoS,
programs with another clock, and files of the view that can be written."""

import ctypes
import os
import re
import subprocess
import sys
import unittest

from fabricbed import TRIANGLE, FabricBed, Failure, fields_of, run_tests, text_of, wait_for_text

from testbed import SKIPPED, are_installed, option_parser, wait_until

OPTIONS = None  # Set in main.
SECONDS_MAX = 60
SWITCHES = ("S1", "S2", "S3")
# opensm's own host is a full member, as are the switches; all others are limited ones.
LIMITED = "Default=0x7fff, ipoib : ALL=limited, SELF=full, ALL_SWITCHES=full;\n"
# Inventory, its validation, all validations, services, events, a flood of 4,000 queries with answers by RMPP,
# multicast, QoS, traps; and without an option all of them in turn.
FLOWS = (("-f", "c"), ("-f", "v"), ("-f", "a"), ("-f", "s"), ("-f", "e"), ("-f", "f", "-s", "2"), ("-f", "m"),
         ("-f", "q"), ("-f", "t"), ())


class Operation(unittest.TestCase):
    def setUp(self):
        self.bed = FabricBed(OPTIONS)
        self.bed.end_with(self)

    def start(self, *options, settings="", topology=TRIANGLE):
        self.bed.up(topology)
        _, log = self.bed.start_manager("H1", *options, settings=settings)
        wait_for_text(log, "SUBNET UP")
        self.bed.wait_until_active("H1", "H2", "H4")
        return log

    def osmtest(self, *options):
        # It writes files into the folder that it runs in.
        said = self.bed.run("H2", "sh", "-c", 'cd "$0" && exec osmtest "$@"', self.bed.folder, *options, "-i", "inventory",
                            "-l", "osmtest.log", "-w", "1")
        self.assertIn("PASS", said)

    def test_all_flows_of_osmtest(self):
        self.start("-Q")
        for flow in FLOWS:
            with self.subTest(flow=flow):
                self.osmtest(*flow)

    def test_agents_answer_limited_members(self):
        partitions = f"{self.bed.folder}/partitions.conf"
        with open(partitions, "w", encoding="ascii") as file:
            file.write(LIMITED)
        self.start("-P", partitions, settings="part_enforce both\n")
        self.assertIn("0x7fff", self.bed.run("H1", "smpquery", "PKeys", str(self.bed.lids()["H2"])))
        for host, others in (("H1", ("S1", "S2", "S3", "H2", "H4")), ("H2", ("S1", "S2", "S3", "H1"))):
            for other in others:
                with self.subTest(host=host, to=other):
                    lid = str(self.bed.lids()[other])
                    self.assertIn("PortXmitPkts", self.bed.run(host, "perfquery", lid, "1"))
        with self.assertRaises(Failure, msg="limited members do not reach each other"):
            self.bed.run("H2", "perfquery", "-t", "100", str(self.bed.lids()["H4"]), "1")

    def test_quality_of_service_sets_up_every_switch(self):
        log = self.start("-Q")
        self.assertNotIn("ERR 3111", text_of(log))
        for switch in SWITCHES:
            self.bed.run("H1", "smpquery", "SL2VL", str(self.bed.lids()[switch]), "1")

    def test_programs_with_other_clocks_disturb_no_other(self):
        if not are_installed("ib_write_bw", "faketime"):
            self.skipTest("no ib_write_bw or faketime")
        self.start()
        write = ("ib_write_bw", "-n", "200")
        for clock in (("faketime", "-f", "+60s"), ("faketime", "-f", "-60s"), ("faketime", "-f", "+0 x20"),
                      ("unshare", "--map-root-user", "--time", "--monotonic", "10000", "--fork")):
            with self.subTest(clock=clock):
                if subprocess.run([*clock, "true"], check=False, capture_output=True).returncode != 0:
                    self.skipTest(f"no {clock}")
                server, client = self.bed.start_server("H2", *write)
                self.bed.run("H4", *clock, *client)
                self.assertEqual(server.wait(SECONDS_MAX), 0)
                self.assertIn("65536", self.bed.run_pair("H2", "H4", *write))

    def test_daemon_runs_soon_after_it_wakes(self):
        """Linux gives a thread that asks for short slices the processor sooner, whichever programs spin."""
        if tuple(map(int, os.uname().release.split(".")[:2])) < (6, 12):
            self.skipTest("Linux before 6.12 has no slices that threads ask for")
        self.bed.up(TRIANGLE)
        attributes = (ctypes.c_char * 48)()
        sched_getattr = 315 if os.uname().machine == "x86_64" else 275
        self.assertEqual(ctypes.CDLL(None).syscall(sched_getattr, self.bed.daemon(), attributes, 48, 0), 0)
        self.assertEqual(int.from_bytes(attributes.raw[24:32], sys.byteorder), 100_000)

    def test_node_description_can_be_written_and_nothing_else(self):
        self.start()
        device = "/sys/class/infiniband/verbatim0"
        lid = str(self.bed.lids()["H2"])

        def write(text, path):
            return self.bed.run("H2", "sh", "-c", f"echo {text} > {device}/{path}", check=False)

        write("renamed", "node_desc")
        wait_until(lambda: "renamed" in self.bed.run("H1", "smpquery", "ND", lid), SECONDS_MAX, "the new description")
        wait_until(lambda: self.bed.run("H2", "cat", f"{device}/node_desc") == "renamed\n", SECONDS_MAX,
                   "the view to say it")
        for path in ("ports/1/lid", "node_guid", "fw_ver", "ports/1/new"):
            with self.subTest(path=path):
                with self.assertRaisesRegex(Failure, "(?i)permission denied"):
                    self.bed.run("H2", "sh", "-c", f"echo 5 > {device}/{path}")

    def test_devices_of_management_are_there(self):
        self.start()
        names = self.bed.run("H4", "ls", "/dev/infiniband").split()
        self.assertEqual([name for name in names if name != "rdma_cm"],
                         ["issm0", "issm1", "umad0", "umad1", "uverbs0"])
        # To hold the file open is to be a subnet manager.
        holder = self.bed.start("H4", "sh", "-c", "exec sleep 100 < /dev/infiniband/issm0")

        def capabilities():
            return int(fields_of(self.bed.run("H4", "smpquery", "PI", str(self.bed.lids()["H4"]), "1"))["CapMask"], 16)

        wait_until(lambda: capabilities() & 2, SECONDS_MAX, "IsSM of the port")
        self.bed.end(holder)

    def test_show_prints_the_rate_at_which_a_link_runs(self):
        self.start(topology=TRIANGLE.replace('"H4"[1]\n', '"H4"[1] # 4xHDR\n').replace(
            'Hca 2 "H4"\n[1] "S3"[1]', 'Hca 2 "H4"\n[1] "S3"[1] # 4xHDR'))
        line = r"S3\s+1\s+H4\s+1\s+(\S+)"
        self.assertEqual(re.search(line, self.bed.verbatim("fabric", "show"))[1], "4xHDR")
        switch = str(self.bed.lids()["S3"])
        self.bed.run("H1", "ibportstate", switch, "1", "width", "1")
        self.bed.run("H1", "ibportstate", switch, "1", "reset")
        wait_until(lambda: re.search(line, self.bed.verbatim("fabric", "show"))[1] == "1xHDR", SECONDS_MAX,
                   "the link to run at 1xHDR")

    def test_a_rate_that_is_none_is_refused(self):
        with self.assertRaisesRegex(Failure, "9xHDR is no rate"):
            self.bed.up(TRIANGLE.replace('[1] "H4"[1]\n', '[1] "H4"[1] # 9xHDR\n'))


def main():
    global OPTIONS
    OPTIONS = option_parser(__doc__).parse_args()
    if not are_installed("opensm", "osmtest", "perfquery", "saquery"):
        return SKIPPED
    run_tests()
    return 0


if __name__ == "__main__":
    sys.exit(main())
