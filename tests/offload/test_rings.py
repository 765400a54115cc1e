#!/usr/bin/env python3
"""Functions that are rings of memory, without nodes: links of two of them (`function_ends.cpp`) compare what they send, through
a card whose driver (`cable.cpp`) joins the functions, and through two cards with a VXLAN tunnel between them. As an ordinary
user in namespaces."""

import os
import signal
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77
BUILD = None
PATIENCE = 120


class Card:
    def __init__(self, name, *words):
        self.socket = f"{os.environ['XDG_RUNTIME_DIR']}/{name}.card"
        self.words = [f"{BUILD}/bin/verbatim-nicd", "--name", name, "--prefix", name, "--socket", self.socket, *words]
        self.driver = None
        self.start()

    def start(self):
        ready, told = os.pipe()
        self.process = subprocess.Popen([*self.words, "--ready-fd", str(told)], pass_fds=[told])
        os.close(told)
        os.read(ready, 1)
        os.close(ready)

    def drive(self, *words):
        if self.driver is not None:
            self.driver.communicate()
        self.driver = subprocess.Popen([f"{BUILD}/bin/offload_cable", self.socket, *words], text=True,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.driver.stdout.readline() == "ready\n"

    def end(self, how=signal.SIGTERM):
        self.process.send_signal(how)
        self.process.wait(PATIENCE)
        if self.driver is not None:
            self.driver.communicate()


def ends(one, other):
    done = subprocess.run([f"{BUILD}/bin/function_ends", one, other], text=True, check=False, capture_output=True,
                          timeout=PATIENCE)
    return done.returncode, done.stdout + done.stderr


class Rings(unittest.TestCase):
    def test_two_functions_of_a_card(self):
        card = Card("one", "--vfs", "3", "--rings", "vf0,vf2")
        self.addCleanup(card.end)
        card.drive("1", "3")
        self.assertEqual(ends(f"{card.socket}/vf0", f"{card.socket}/vf2"), (0, "ok\n"))
        self.assertIn("network interface", ends(f"{card.socket}/vf0", f"{card.socket}/vf1")[1])
        self.assertIn("no function vf3", ends(f"{card.socket}/vf0", f"{card.socket}/vf3")[1])

    def test_a_next_card_has_the_same_function(self):
        card = Card("one", "--vfs", "2", "--rings", "vf0,vf1")
        self.addCleanup(lambda: card.end())
        card.drive("1", "2")
        self.assertEqual(ends(f"{card.socket}/vf0", f"{card.socket}/vf1"), (0, "ok\n"))
        card.end(signal.SIGKILL)
        card.driver = None
        card.start()
        card.drive("1", "2")
        self.assertEqual(ends(f"{card.socket}/vf0", f"{card.socket}/vf1"), (0, "ok\n"))

    def test_a_vxlan_tunnel_between_two_cards(self):
        """Both ways are offloaded: what the cards' rules make of frames, tunnel included."""
        one, two = Card("one", "--vfs", "1", "--rings", "vf0"), Card("two", "--vfs", "1", "--rings", "vf0")
        self.addCleanup(one.end)
        self.addCleanup(two.end)
        for words in (["add", "wire", "mtu", "9000", "type", "bridge"], ["set", "wire", "up"],
                      ["set", "oneup", "mtu", "9000", "master", "wire", "up"],
                      ["set", "twoup", "mtu", "9000", "master", "wire", "up"]):
            subprocess.run(["ip", "link", *words], check=True)
        one.drive("vxlan", "1", "1", "2")
        two.drive("vxlan", "1", "2", "1")
        self.assertEqual(ends(f"{one.socket}/vf0", f"{two.socket}/vf0"), (0, "ok\n"))


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
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        result = unittest.main(argv=[sys.argv[0], *sys.argv[2:]], exit=False, verbosity=2).result
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
