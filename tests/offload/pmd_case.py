"""What tests by dpdk-testpmd have in common: a card with an uplink and two functions, and testpmd as its client."""

import re
import tempfile
import time
import unittest

import pmd

RULES = 200
ETH, IP, UDP = "eth / ", "eth / ipv4 / ", "eth / ipv4 / udp "


class WithTestPmd(unittest.TestCase):
    """Port 0 is the uplink (tup), port 1 and 2 are functions (tvf0, tvf1)."""

    build = None

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.card = pmd.Card(cls.build, cls.folder.name, "--vfs", "2", "--rules", str(RULES))
        cls.pmd = pmd.TestPmd(cls.build, cls.folder.name, "--portmask=7", "--rxq=2", "--txq=2")

    @classmethod
    def tearDownClass(cls):
        status = cls.pmd.quit()
        cls.card.command("down")
        cls.folder.cleanup()
        assert status == 0, status

    def setUp(self):
        for port in (0, 1):
            self.pmd.ask(f"flow flush {port}")
            self.create(f"{port} transfer pattern eth type is 0x88b5 / end actions port_id id 2 / end")

    def create(self, rule):
        said = self.pmd.ask(f"flow create {rule}")
        found = re.search(r"Flow rule #(\d+) created", said)
        self.assertTrue(found, f"{rule}: {said}")
        return int(found[1])

    def refused(self, rule, words):
        said = self.pmd.ask(f"flow create {rule}")
        self.assertNotIn("created", said, rule)
        self.assertIn(words, said, rule)

    def out(self, *frames, source="tvf0"):
        return self.card.exchange(source, "tvf1", *frames)

    def count(self, rule, port=1):
        said = self.pmd.ask(f"flow query {port} {rule} count")
        return int(re.search(r"hits: (\d+)", said)[1])

    def until(self, condition, words):
        end = time.monotonic() + pmd.PATIENCE
        while not condition():
            self.assertLess(time.monotonic(), end, words)
