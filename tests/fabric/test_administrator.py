#!/usr/bin/env python3
"""What programs ask the subnet administrator, under an opensm with rules: service levels by service and by class, groups
as their partition has them; by queue pairs of their own; and when its manager has gone."""

import os
import re
import signal
import sys
import unittest

from fabricbed import FabricBed, run_tests, text_of

from testbed import SKIPPED, are_installed, option_parser, wait_until

BED = None  # Set in main.
SECONDS_MAX = 60
GROUP = "239.1.2.3"
PARTITIONS = "Default=0x7fff, ipoib, sl=4 : ALL=full;\n"
# The service ID of port 7777 of RDMA_PS_TCP, and a class.
POLICY = """
qos-ulps
    default : 0
    any, service-id 0x0000000001061E61 : 5
end-qos-ulps
qos-levels
    qos-level
        name: DEFAULT
        sl: 0
    end-qos-level
    qos-level
        name: fast
        sl: 6
    end-qos-level
end-qos-levels
qos-match-rules
    qos-match-rule
        qos-class: 9
        qos-level-name: fast
    end-qos-match-rule
end-qos-match-rules
"""
WELL_KNOWN_Q_KEY, OTHER_Q_KEY = "0x80010000", "0x1234"


def program(name):
    return f"{BED.build}/bin/{name}"


def address_of(host):
    return BED.hosts()[host]["address"]


class Rules(unittest.TestCase):
    def level_to(self, port, *tos):
        return int(BED.run("H2", program("cm_path"), address_of("H3"), str(port), *tos))

    def test_a_rule_by_service_gives_its_level(self):
        self.assertEqual(self.level_to(7777), 5)
        self.assertEqual(self.level_to(7778), 0)

    def test_a_rule_by_class_gives_its_level(self):
        self.assertEqual(self.level_to(7778, "9"), 6)
        self.assertEqual(self.level_to(7778, "8"), 0)

    def test_groups_have_the_level_of_their_partition(self):
        """RDMA_PS_UDP, and RDMA_PS_IPOIB, whose groups have the partition's Q_Key, too."""
        for space, joined in (("0x0111", r"dgid: ff12:4001:"), ("0x0002", r"dgid: ff12:401b:")):
            with self.subTest(space):
                options = ("-m", GROUP, "-p", space, "-C", "3")
                receiver = BED.start("H3", "stdbuf", "-oL", "mckey", *options, "-b", address_of("H3"))
                said = f"{BED.folder}/stdbuf-H3.out"
                wait_until(lambda said=said: "joined" in text_of(said), SECONDS_MAX, "the receiver to join")
                sender = BED.run("H2", "mckey", *options, "-s", "-b", address_of("H2"))
                self.assertRegex(sender, joined + r".* sl 4")
                self.assertEqual(receiver.wait(SECONDS_MAX), 0, text_of(said))


class OwnQueuePairs(unittest.TestCase):
    def test_the_administrator_answers_them(self):
        """Also those of the manager's own host, and in messages of several datagrams."""
        lids = BED.lids()
        for host in ("H1", "H2"):
            for method in ("get", "get-table"):
                with self.subTest((host, method)):
                    said = BED.run(host, program("ask_administrator"), method, WELL_KNOWN_Q_KEY)
                    self.assertRegex(said, r"^status 0, a path to LID \d+")
                    if method == "get":
                        self.assertIn(f"LID {lids[host]}", said)

    def test_a_wrong_key_is_counted(self):
        def violations():
            said = BED.run("H1", "smpquery", "portinfo", str(BED.lids()["H1"]), "1")
            return int(re.search(r"QkeyViolations:\.+(\d+)", said)[1])

        before = violations()
        self.assertIn("no answer", BED.run("H2", program("ask_administrator"), "get", OTHER_Q_KEY))
        self.assertGreater(violations(), before)


class WithoutManager(unittest.TestCase):
    """The last: it ends the manager."""

    def test_it_is_said_that_no_administrator_answers(self):
        (manager,) = BED.status()["managers"]
        os.kill(manager["pid"], signal.SIGTERM)
        wait_until(lambda: "exit_status" in BED.status()["managers"][0], SECONDS_MAX, "the manager to end")
        said = BED.run("H2", "sh", "-c", f"{program('cm_path')} {address_of('H3')} 7777 2>&1", check=False)
        self.assertIn("no subnet administrator answers", said)
        said = BED.run("H2", "sh", "-c", f"{BED.build}/bin/verbatim fabric check 2>&1", check=False)
        self.assertRegex(said, r"no subnet administrator answers at LID \d+")
        self.assertNotIn("Resource temporarily unavailable", said)


def main():
    global BED
    options = option_parser(__doc__).parse_args()
    if not are_installed("opensm", "mckey", "smpquery", "stdbuf"):
        return SKIPPED
    with FabricBed(options) as BED:
        os.chdir(BED.folder)  # Files of the manager's options are looked for from here.
        for name, text in (("partitions.conf", PARTITIONS), ("the policy", POLICY)):
            with open(name, "w", encoding="ascii") as file:
                file.write(text)
        topology = BED.verbatim("fabric", "generate", "fat-tree", "--hosts", "4", "--switch-ports", "4")
        BED.up(topology, "--manager", "opensm -Q -P partitions.conf -Y 'the policy'")
        BED.wait_until_active("H1", "H2", "H3")
        run_tests()
    return 0


if __name__ == "__main__":
    sys.exit(main())
