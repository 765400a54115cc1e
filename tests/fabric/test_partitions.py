#!/usr/bin/env python3
"""Partitions that Debian's opensm makes from its partitions.conf: full members talk to all members, limited ones to
full ones alone, strangers to none. Switches enforce it, or hosts do."""

import subprocess
import sys
import unittest

from fabricbed import FabricBed, fields_of, run_tests, text_of, wait_for_text

from testbed import SKIPPED, are_installed, option_parser, wait_until

OPTIONS = None  # Set in main.
SECONDS_MAX = 60
SILENCE_SECONDS = 2  # A datagram that has not come by then does not come.
FULL, LIMITED, STRANGER = ("H1", "H8"), ("H4", "H6"), "H3"
PARTITION, FULL_MEMBER = 0x1001, 0x8000
IN_PARTITION = ("--pkey_index", "1")  # Entry 0 is the default partition.


class Partitions(unittest.TestCase):
    def setUp(self):
        self.bed = FabricBed(OPTIONS)
        self.bed.end_with(self)

    def start(self, enforcement):
        """`enforcement`: opensm's option, by switches. Returns the path of its log."""
        self.bed.up(self.bed.verbatim("fabric", "generate", "fat-tree", "--hosts", "8", "--switch-ports", "4"))
        guids = {name: host["ports"][0]["guid"] for name, host in self.bed.hosts().items()}
        members = [f"{guids[host]}={kind}" for kind, hosts in (("full", FULL), ("limited", LIMITED)) for host in hosts]
        configuration = f"{self.bed.folder}/partitions.conf"
        with open(configuration, "w", encoding="ascii") as file:
            file.write(f"Default=0x7fff : ALL=full;\nblue={PARTITION:#x} : {', '.join(members)};\n")
        _, log = self.bed.start_manager("H2", "-P", configuration, "-Z", enforcement)
        wait_for_text(log, "SUBNET UP")
        for host in FULL + LIMITED:
            key = PARTITION | (FULL_MEMBER if host in FULL else 0)
            wait_until(lambda host=host, key=key: f"{key:#06x}" in self.keys_of(host), SECONDS_MAX, f"P_Keys of {host}")
        return log

    def keys_of(self, host):
        return self.bed.run(host, "sh", "-c", "cat /sys/class/infiniband/verbatim0/ports/1/pkeys/*")

    def pair(self, server_host, client_host, *argv):
        """Returns server and client."""
        server, command = self.bed.start_server(server_host, *argv, *IN_PARTITION, "-F")
        return server, self.bed.start(client_host, *command)

    def talk(self, one, other):
        """Over both services."""
        for argv in (("ib_write_bw", "-n", "100"), ("ib_send_lat", "-c", "UD", "-n", "100")):
            statuses = [program.wait(SECONDS_MAX) for program in self.pair(one, other, *argv)]
            self.assertEqual(statuses, [0, 0], f"{argv[0]} from {other} to {one}")

    def do_not_talk(self, one, other):
        server, client = self.pair(one, other, "ib_write_bw", "-n", "100", "-u", "10")
        self.assertNotEqual(client.wait(SECONDS_MAX), 0)
        self.assertIn("Failed status 12", text_of(f"{self.bed.folder}/ib_write_bw-{other}.out"))  # Retries exceeded.
        self.bed.end(server)
        server, client = self.pair(one, other, "ib_send_lat", "-c", "UD", "-n", "100")
        with self.assertRaises(subprocess.TimeoutExpired):
            client.wait(SILENCE_SECONDS)
        self.bed.end(client)
        self.bed.end(server)

    def members_talk_as_they_may(self):
        self.talk(*FULL)
        self.talk(FULL[0], LIMITED[0])
        self.talk(LIMITED[0], FULL[1])
        self.do_not_talk(*LIMITED)

    def counter(self, host, name, *command):
        lid = str(self.bed.hosts()[host]["ports"][0]["lid"])
        return int(fields_of(self.bed.run("H2", *command, lid, "1"))[name])

    def test_hosts_enforce(self):
        log = self.start("off")
        self.members_talk_as_they_may()
        # A port tells the manager of packets that it refuses: trap 257.
        self.assertGreater(self.counter(LIMITED[0], "PkeyViolations", "smpquery", "portinfo"), 0)
        self.assertEqual(self.counter(FULL[0], "PkeyViolations", "smpquery", "portinfo"), 0)
        wait_for_text(log, "num:257")
        self.assertEqual(self.bed.verbatim("fabric", "check"), "")

    def test_switches_enforce(self):
        self.start("both")
        self.members_talk_as_they_may()
        self.do_not_talk(FULL[0], STRANGER)
        # Not one packet of them came to a host.
        for host in FULL + LIMITED:
            self.assertEqual(self.counter(host, "PkeyViolations", "smpquery", "portinfo"), 0)
        errors = self.bed.run("H2", "ibqueryerrors", check=False)
        self.assertIn("PortXmitConstraintErrors", errors)


def main():
    global OPTIONS
    OPTIONS = option_parser(__doc__).parse_args()
    if not are_installed("opensm", "smpquery", "ib_write_bw", "ib_send_lat"):
        return SKIPPED
    run_tests()
    return 0


if __name__ == "__main__":
    sys.exit(main())
