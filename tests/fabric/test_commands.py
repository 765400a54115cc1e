#!/usr/bin/env python3
"""`verbatim fabric`: starts, shows and ends fabrics, and says what is wrong."""

import collections
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import unittest
from xml.etree import ElementTree

from fabricbed import CABLES, HOSTS, SWITCHES, TRIANGLE, FabricBed, run_tests

from testbed import option_parser, wait_until

OPTIONS = None  # Set in main.


class Commands(unittest.TestCase):
    def setUp(self):
        self.bed = FabricBed(OPTIONS)
        self.bed.end_with(self)

    def fails(self, *words, status=1, stdin=""):
        """Runs the command, which shall fail; returns what it says."""
        done = subprocess.run([f"{self.bed.build}/bin/verbatim", *words], input=stdin, text=True, check=False,
                              env=self.bed.environment(), capture_output=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        return done.stderr

    def names(self):
        return self.bed.verbatim("fabric", "show", "--names").split()

    def test_show_tells_of_nodes_and_links(self):
        self.bed.up(TRIANGLE)
        text = self.bed.verbatim("fabric", "show")
        for name in HOSTS + SWITCHES:
            self.assertRegex(text, rf"(?m)^{name}\s+(host|switch)")
        for number, name in enumerate(HOSTS, 1):
            self.assertRegex(text, rf"(?m)^{name}\s.*\s127\.\d+\.0\.{number}$")
        status = self.bed.status()
        ends = {(link["a"]["node"], link["a"]["port"], link["b"]["node"], link["b"]["port"]) for link in status["links"]}
        for (node, port), (peer, peer_port) in CABLES.items():
            self.assertTrue({(node, port, peer, peer_port), (peer, peer_port, node, port)} & ends)
        # Links train, and wait for a manager.
        wait_until(lambda: "init" in self.bed.verbatim("fabric", "show"), 30, "links in state Init")

    def test_fabrics_have_names(self):
        self.bed.up(TRIANGLE, "--name", "one")
        self.bed.up(TRIANGLE, "--name", "two")
        self.assertEqual(self.names(), ["one", "two"])
        self.assertIn("runs already", self.fails("fabric", "up", "-", "--name", "one", stdin=TRIANGLE))
        for name in ("one", "two"):
            self.bed.verbatim("fabric", "down", "--name", name)
        self.assertEqual(self.names(), [])
        self.assertEqual(self.bed.processes(), [])

    def test_the_default_fabric_is_called_default(self):
        """All commands that can name a fabric mean the same one if they name none."""
        self.bed.up(TRIANGLE)
        self.assertEqual(self.names(), ["default"])
        named = self.bed.verbatim("run", "--fabric", "default", "--host", "H1", "--", "ibnetdiscover", "-p")
        self.assertEqual(named, self.bed.run("H1", "ibnetdiscover", "-p"))
        self.assertIn("no fabric 'defualt' runs here, but 'default'",
                      self.fails("run", "--fabric", "defualt", "--host", "H1", "--", "true"))
        self.bed.verbatim("fabric", "down", "--name", "default")

    def test_generated_topologies_come_up(self):
        for kind in ("fat-tree", "torus-2d", "full-mesh"):
            self.bed.up(self.bed.verbatim("fabric", "generate", kind, "--hosts", "24"))
            status = self.bed.status()
            self.assertEqual(sum(node["kind"] == "host" for node in status["nodes"]), 24)
            self.bed.verbatim("fabric", "down")

    def test_each_subnet_has_a_manager(self):
        topology = self.bed.verbatim("fabric", "generate", "two-subnets", "--hosts", "8", "--switch-ports", "6")
        self.bed.up(topology, "--manager", "opensm")
        self.assertEqual(len(self.bed.status()["managers"]), 2)
        self.assertEqual(self.check(), "")

    def test_a_killed_daemon_leaves_nothing_in_the_way(self):
        self.bed.up(TRIANGLE)
        (daemon,) = self.bed.processes()
        os.kill(daemon, signal.SIGKILL)
        wait_until(lambda: "no fabric 'default' runs:" in self.fails("fabric", "show"), 30, "the daemon to end")
        self.assertEqual(self.names(), [])
        self.bed.up(TRIANGLE)

    def test_signal_or_missing_socket_ends_it(self):
        self.bed.up(TRIANGLE)
        (daemon,) = self.bed.processes()
        os.kill(daemon, signal.SIGTERM)
        wait_until(lambda: not self.bed.processes(), 30, "the daemon to end by a signal")
        self.bed.up(TRIANGLE)
        (socket,) = pathlib.Path(self.bed.folder).rglob("fabric-default/socket")
        socket.unlink()
        wait_until(lambda: not self.bed.processes(), 30, "the daemon to end without its socket")

    def test_it_keeps_no_descriptor_of_its_caller(self):
        """A harness may wait for the end of a pipe that its commands have inherited."""
        reading, writing = os.pipe()
        with os.fdopen(reading, "rb") as pipe:
            subprocess.run([f"{self.bed.build}/bin/verbatim", "fabric", "up", "-", "--ends-with", str(os.getpid())],
                           input=TRIANGLE, text=True, check=True, env=self.bed.environment(), pass_fds=[writing],
                           timeout=60)
            os.close(writing)
            self.assertEqual(select.select([pipe], [], [], 60)[0], [pipe], "the daemon has it open")
            self.assertEqual(pipe.read(), b"")

    def test_ends_with_a_process(self):
        with subprocess.Popen(["sleep", "1000"]) as script:
            self.bed.verbatim("fabric", "up", "-", "--ends-with", str(script.pid), stdin=TRIANGLE)
            self.assertEqual(self.names(), ["default"])
            script.kill()
        wait_until(lambda: not self.bed.processes(), 30, "the daemon to end with the process")
        self.assertIn("No such process", self.fails("fabric", "up", "-", "--ends-with", str(script.pid), stdin=TRIANGLE))
        self.assertIn("process 0", self.fails("fabric", "up", "-", "--ends-with", "0", stdin=TRIANGLE))

    def test_links_go_down_and_up_and_are_degraded(self):
        """As iblinkinfo and opensm see it: the manager routes around what is down."""
        self.bed.up(TRIANGLE, "--manager", "opensm")
        s2 = str(self.bed.lids()["S2"])
        self.assertEqual(self.bed.hops("H1", "H3"), ["S1", "S2"])
        self.bed.verbatim("fabric", "link", "S2/3", "down")
        wait_until(lambda: self.bed.hops("H1", "H3") == ["S1", "S3", "S2"], 60, "opensm to route around S1 to S2")
        self.assertIn("Down", self.bed.run("H1", "ibportstate", s2, "3", "query"))
        self.bed.verbatim("fabric", "link", "S1/3", "up")  # The other end of the same cable.
        wait_until(lambda: self.bed.hops("H1", "H3") == ["S1", "S2"], 60, "opensm to take the cable again")

        self.bed.verbatim("fabric", "link", "S2/3", "degrade", "1xSDR")
        wait_until(lambda: re.search(r"1X\s+2\.5 Gbps Active", self.bed.run("H1", "iblinkinfo")), 60, "a slow link")
        self.assertRegex(self.bed.verbatim("fabric", "show"), r"(?m)^S1 +3 +S2 +3 +1xSDR")
        self.bed.verbatim("fabric", "link", "S2/3", "up")
        wait_until(lambda: "1X" not in self.bed.run("H1", "iblinkinfo"), 60, "the link as it was")

    def check(self):
        done = subprocess.run([f"{self.bed.build}/bin/verbatim", "fabric", "check"], text=True, check=False,
                              env=self.bed.environment(), capture_output=True, timeout=60)
        self.assertEqual(done.stderr, "")
        self.assertEqual(done.returncode, 1 if done.stdout else 0)
        return done.stdout

    def test_check_finds_what_is_wrong(self):
        self.bed.up(TRIANGLE)
        self.assertIn("H1/1", self.check())  # There is no manager.
        self.bed.verbatim("fabric", "down")
        self.bed.up(self.bed.verbatim("fabric", "generate", "fat-tree", "--hosts", "24"), "--manager", "opensm")
        wait_until(lambda: self.check() == "", 60, "a fat tree without a finding")
        self.bed.verbatim("fabric", "down")
        # opensm's default routing takes the shortest way, also round a ring.
        self.bed.up(self.bed.verbatim("fabric", "generate", "hypercube", "--hosts", "64"), "--manager", "opensm")
        wait_until(lambda: "a credit loop: S1/17 lane 0 > S2/18 lane 0 >" in self.check(), 60, "a credit loop")
        self.bed.verbatim("fabric", "down")
        # Dimension order on a torus of 5 x 5: each of its ten rings is a credit loop, in both directions.
        self.bed.up(self.bed.verbatim("fabric", "generate", "torus-2d", "--hosts", "50", "--switch-ports", "6"))
        manager, _ = self.bed.start_manager("H1", "-R", "dor")
        wait_until(lambda: self.check().count("a credit loop: ") == 20, 60, "twenty credit loops")
        self.bed.end(manager)
        self.bed.verbatim("fabric", "down")
        # No route crosses two cables of a triangle.
        self.bed.up(TRIANGLE, "--manager", "opensm")
        wait_until(lambda: self.check() == "", 60, "a triangle without a finding")
        self.bed.verbatim("fabric", "link", "H2/1", "down")
        self.assertIn("H2/1: its link is not active", self.check())

    def test_a_drawing_has_all_nodes_and_links(self):
        self.bed.up(TRIANGLE, "--manager", "opensm")
        wait_until(lambda: "S1/3: its link" not in self.check(), 60, "active links")
        self.bed.verbatim("fabric", "link", "S1/3", "down")
        self.bed.verbatim("fabric", "link", "S2/1", "errors", "1e-12")
        path = f"{self.bed.folder}/fabric.svg"
        self.bed.verbatim("fabric", "show", "--svg", path)
        drawing = ElementTree.parse(path).getroot()
        groups = [group for group in drawing.iter() if group.tag.endswith("}g")]
        classes = collections.Counter(group.get("class") for group in groups)
        self.assertEqual(classes, {"link": len(CABLES) - 3, "switch": 3, "host": 4})
        self.assertEqual({text.text for text in drawing.iter() if text.tag.endswith("}text")} & {"S1", "S2", "H1", "H4"},
                         {"S1", "S2", "H1", "H4"})
        links = {group[0].text.split(":")[0]: group for group in groups if group.get("class") == "link"}
        self.assertIn("down", links["S1[3] - S2[3]"][0].text)
        # Down, with bit errors, and well.
        colors = {links[link][1].get("stroke") for link in ("S1[3] - S2[3]", "S2[1] - H3[1]", "S1[1] - H1[1]")}
        self.assertEqual(len(colors), 3, colors)
        self.assertIn("No such file", self.fails("fabric", "show", "--svg", f"{self.bed.folder}/nowhere/x"))

    def test_wrong_links_are_refused(self):
        self.assertIn("no fabric", self.fails("fabric", "link", "S1/3", "down"))
        self.assertIn("such as L1/3", self.fails("fabric", "link", "S1", "down", status=2))
        self.assertIn("such as L1/3", self.fails("fabric", "link", "S1/300", "down", status=2))
        self.assertIn("such as 'degrade 1x'", self.fails("fabric", "link", "S1/3", "degrade", status=2).lower())
        self.assertIn("neither a width", self.fails("fabric", "link", "S1/3", "degrade", "3x", status=2))
        self.bed.up(TRIANGLE)
        self.assertIn("no node 'S9'", self.fails("fabric", "link", "S9/3", "down"))
        self.assertIn("ports 1 to 36", self.fails("fabric", "link", "S1/40", "down"))
        self.assertIn("no cable", self.fails("fabric", "link", "S1/9", "down"))
        self.assertIn("made for 4xSDR", self.fails("fabric", "link", "S1/3", "degrade", "4xHDR"))

    def test_errors_say_what_is_wrong(self):
        self.assertIn("no fabric 'default' runs", self.fails("fabric", "down"))
        self.assertIn("No such file", self.fails("fabric", "up", f"{self.bed.folder}/missing"))
        self.assertIn("directory", self.fails("fabric", "up", self.bed.folder))
        self.assertIn("lists no node", self.fails("fabric", "up", "-"))
        self.assertIn("line 2", self.fails("fabric", "up", "-", stdin='\nSwitch 0 "S"\n'))
        self.assertIn("no text", self.fails("fabric", "up", f"{self.bed.build}/bin/verbatim"))
        self.assertIn("cannot be the name", self.fails("fabric", "up", "-", "--name", "a/b", stdin=TRIANGLE))
        self.assertIn("'fat-tree' may be meant", self.fails("fabric", "generate", "fat-tre", "--hosts", "4", status=2))
        self.assertIn("is no rate", self.fails("fabric", "generate", "fat-tree", "--hosts", "4", "--rate", "9x", status=2))
        self.assertIn("--hosts", self.fails("fabric", "generate", "fat-tree", status=2))
        self.assertIn("verbatim fabric: there is no command 'frobnicate'\n", self.fails("fabric", "frobnicate", status=2))
        self.assertIn("no command 'chekc'; 'check' may be meant", self.fails("fabric", "chekc", status=2))
        for manager in ("opensmm", "opensm -f log", "opensm -B", "opensm 'x"):
            self.assertIn("--manager", self.fails("fabric", "up", "-", "--manager", manager, status=2, stdin=TRIANGLE))
        self.assertIn("no fabric", self.fails("run", "--host", "H1", "--", "true"))
        self.assertIn("--node excludes --host",
                      self.fails("run", "--host", "H1", "--node", "a", "--", "true", status=2))
        self.assertIn("--device excludes --host",
                      self.fails("run", "--host", "H1", "--device", "mlx5_0", "--", "true", status=2))
        self.assertIn("--fabric needs --host", self.fails("run", "--fabric", "x", "--", "true", status=2))
        self.bed.up(TRIANGLE)
        self.assertIn("no host 'H9'", self.fails("run", "--host", "H9", "--", "true"))
        self.assertIn("no host 'h1'; 'H1' may be meant", self.fails("run", "--host", "h1", "--", "true"))
        self.assertIn("'S1' is no host", self.fails("run", "--host", "S1", "--", "true"))


def main():
    global OPTIONS
    OPTIONS = option_parser(__doc__).parse_args()
    run_tests()
    return 0


if __name__ == "__main__":
    sys.exit(main())
