#!/usr/bin/env python3
"""`verbatim nic` without Open vSwitch, as an ordinary user in namespaces: a card starts, tells of itself and ends; a wrong
set-up gets a sentence that says what to do."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77
BUILD = None


def verbatim(*words, **more):
    return subprocess.run([f"{BUILD}/bin/verbatim", "nic", *words], text=True, check=False, capture_output=True, timeout=60,
                          **more)


class Card(unittest.TestCase):
    def tearDown(self):
        verbatim("down")

    def test_up_show_down(self):
        up = verbatim("up", "--vfs", "2", "--prefix", "t")
        self.assertEqual((up.returncode, up.stderr), (0, ""))
        self.assertIn("uplink tup, functions tvf0 to tvf1", up.stdout)
        links = subprocess.run(["ip", "-br", "link"], text=True, check=True, capture_output=True).stdout
        self.assertTrue({"tup", "tvf0", "tvf1"} <= {line.split()[0] for line in links.splitlines()})
        card = json.loads(verbatim("show", "--json").stdout)
        self.assertEqual((card["rules"], len(card["ports"])), (0, 3))
        self.assertTrue(os.path.exists(card["socket"]))
        self.assertIn("driver: none", verbatim("show").stdout)
        self.assertEqual(verbatim("flows").stdout, "no rules\n")
        self.assertEqual(len(json.loads(verbatim("stats", "--json").stdout)["ports"]), 3)
        self.assertEqual(verbatim("down").returncode, 0)
        self.assertFalse(os.path.exists(card["socket"]))
        links = subprocess.run(["ip", "-br", "link"], text=True, check=True, capture_output=True).stdout
        self.assertNotIn("tvf0", links)

    def links(self):
        told = subprocess.run(["ip", "-j", "link"], text=True, check=True, capture_output=True).stdout
        return {link["ifname"]: (link["ifindex"], "NO-CARRIER" not in link["flags"]) for link in json.loads(told)}

    def kill(self):
        os.kill(json.loads(verbatim("show", "--json").stdout)["process"], signal.SIGKILL)

    def test_interfaces_outlive_a_card_that_is_killed(self):
        self.assertEqual(verbatim("up", "--vfs", "2", "--prefix", "t").returncode, 0)
        subprocess.run(["ip", "link", "set", "tvf0", "name", "moved", "up"], check=True)
        before = self.links()
        self.kill()
        self.assertEqual(self.links(), before)
        self.assertEqual(verbatim("up", "--vfs", "2", "--prefix", "t").returncode, 0)
        self.assertEqual(self.links(), before)
        self.kill()  # The next one needs fewer: the others end.
        self.assertEqual(verbatim("up", "--vfs", "1", "--prefix", "t").returncode, 0)
        self.assertEqual(self.links().keys(), before.keys() - {"tvf1"})
        self.kill()
        self.assertEqual(verbatim("down").returncode, 0)
        self.assertFalse({"tup", "moved"} & self.links().keys())

    def test_an_interface_that_was_deleted_is_made_anew(self):
        self.assertEqual(verbatim("up", "--vfs", "1", "--prefix", "t").returncode, 0)
        self.kill()
        subprocess.run(["ip", "link", "del", "tvf0"], check=True)
        self.assertEqual(verbatim("up", "--vfs", "1", "--prefix", "t").returncode, 0)
        self.assertIn("tvf0", self.links())

    def test_a_second_card_needs_other_names(self):
        self.assertEqual(verbatim("up", "--vfs", "1").returncode, 0)
        self.assertIn("runs", verbatim("up", "--vfs", "1").stderr)
        second = verbatim("up", "--vfs", "1", "--name", "second")
        self.assertEqual(second.returncode, 1)
        self.assertIn("choose other names with --prefix", second.stderr)
        self.assertEqual(verbatim("up", "--vfs", "1", "--name", "second", "--prefix", "s").returncode, 0)
        self.assertEqual(verbatim("down", "--name", "second").returncode, 0)

    def test_wrong_settings(self):
        for words, sentence in ((("--vfs", "0"), "vfs 0: a number from 1 to 63"), (("--vfs", "many"), "vfs many"),
                                (("--rules", "0"), "rules 0: a number"),
                                (("--prefix", "muchtoolong"), "1 to 10 characters")):
            up = verbatim("up", *words)
            self.assertEqual(up.returncode, 2, (words, up.stderr))
            self.assertIn(sentence, up.stderr)

    def test_without_the_kernels_driver(self):
        up = verbatim("up", "--vfs", "1", "--device", "/dev/not-there")
        self.assertEqual(up.returncode, 1)
        self.assertIn("load the kernel module 'verbatim_nic'", up.stderr)

    def test_without_rights(self):
        without = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"]
        up = subprocess.run([*without, f"{BUILD}/bin/verbatim", "nic", "up"], text=True, check=False,
                            capture_output=True, timeout=60)
        self.assertEqual(up.returncode, 1)
        self.assertIn("unshare -rnm", up.stderr)

    def test_none_runs(self):
        for command in ("show", "flows", "stats", "down"):
            done = verbatim(command)
            self.assertEqual(done.returncode, 1, command)
            self.assertIn("nic 'default'", done.stderr)


def main():
    global BUILD
    BUILD = os.path.abspath(sys.argv[1])
    if os.environ.get("VERBATIM_TEST_INSIDE") != "1":
        unshare = ["unshare", "-Urnm", "--kill-child"]
        if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
            print("skipped: /dev/net/tun cannot be opened")
            return SKIPPED
        if subprocess.run([*unshare, "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
            print("skipped: no user namespaces")
            return SKIPPED
        os.environ["VERBATIM_TEST_INSIDE"] = "1"
        os.execvp("unshare", [*unshare, sys.executable, "-B", *sys.argv])
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        result = unittest.main(argv=sys.argv[:1], exit=False, verbosity=2).result
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
