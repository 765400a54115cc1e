#!/usr/bin/env python3
"""`verbatim fabric check` follows packets at the service levels that Debian's opensm chooses for each path: routing
engines that avoid credit loops by lanes have none, and minimal paths on a ring have one."""

import subprocess
import sys
import unittest

from fabricbed import FabricBed, run_tests, text_of

from testbed import SKIPPED, are_installed, option_parser, wait_until

OPTIONS = None  # Set in main.
SECONDS_MAX = 60
SIZE = 5
LOOP = "a credit loop: "


def ring(size):
    """Switches S1 to SN, each with a host and a cable to the next one: what goes two switches further the same way
    round may wait for each other in a circle."""
    text = ""
    for i in range(size):
        following, previous = (i + 1) % size + 1, (i - 1) % size + 1
        text += f'Switch 4 "S{i + 1}"\n[1] "H{i + 1}"[1]\n[2] "S{following}"[3]\n[3] "S{previous}"[2]\n\n'
    return text + "\n".join(f'Hca 1 "H{i + 1}"\n[1] "S{i + 1}"[1]\n' for i in range(size))


class Engines(unittest.TestCase):
    def start(self, text, engine):
        """Returns the manager."""
        self.bed.up(text)
        manager, log = self.bed.start_manager("H1", "-R", engine, settings="qos TRUE\n")
        wait_until(lambda: "SUBNET UP" in text_of(log), SECONDS_MAX, "the manager")
        return manager

    def check(self, *options):
        """Returns the findings and the remarks."""
        done = subprocess.run([f"{OPTIONS.build}/bin/verbatim", "fabric", "check", *options], text=True, check=False,
                              env=self.bed.environment(), capture_output=True, timeout=SECONDS_MAX)
        return done.stdout, done.stderr

    def test_each_path_has_its_service_level(self):
        for engine in ("lash", "dfsssp"):
            with self.subTest(engine), FabricBed(OPTIONS) as self.bed:
                self.start(ring(SIZE), engine)
                self.assertEqual(self.check(), ("", ""))
                # Packets of programs that do not ask the administrator have one level, and one lane.
                findings, remarks = self.check("--service-level", "0")
                self.assertIn(LOOP, findings)
                self.assertEqual(remarks, "")

    def test_minimal_paths_wait_in_a_circle(self):
        with FabricBed(OPTIONS) as self.bed:
            self.start(ring(SIZE), "minhop")
            findings, remarks = self.check()
            self.assertTrue(all(line.startswith(LOOP) for line in findings.splitlines()), findings)
            self.assertRegex(findings, "S1/2 lane 0 > S2/2 lane 0")
            self.assertEqual(remarks, "")

    def test_without_an_administrator_packets_have_level_0(self):
        with FabricBed(OPTIONS) as self.bed:
            manager = self.start(ring(SIZE), "lash")
            self.bed.end(manager)
            findings, remarks = self.check()
            self.assertIn(LOOP, findings)
            self.assertIn("packets of its subnet are looked at at service level 0", remarks)
            self.assertEqual(len(remarks.splitlines()), 1)


def main():
    global OPTIONS
    OPTIONS = option_parser(__doc__).parse_args()
    if not are_installed("opensm"):
        return SKIPPED
    run_tests()
    return 0


if __name__ == "__main__":
    sys.exit(main())
