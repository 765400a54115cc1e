#!/usr/bin/env python3
"""The driver of upper-layer protocols (src/ulp/rdma/infiniband) between two hosts, across three switches under opensm:
paths, groups, services and device management by libibumad; datagrams to a queue pair and to a group."""

import sys
import unittest

from fabricbed import CHAIN, FabricBed, fields_of, run_tests

from testbed import SKIPPED, are_installed, option_parser, wait_until

OPTIONS = BED = None  # Set in main.
SECONDS_MAX = 60
DEVICE_MANAGEMENT = 1 << 19
GROUP = "ff12:401b:ffff::1234"


class DatagramPeers(unittest.TestCase):
    def start(self, host, *arguments):
        peer = BED.start_dialogue(host, f"{BED.build}/bin/datagram_peer", *arguments)
        self.addCleanup(BED.end, peer)
        return peer

    def test_group_path_service_and_device_management(self):
        lids, gid = BED.lids(), BED.hosts()["H2"]["gid"]
        receiver = self.start("H2", "receive")
        said = receiver.stdout.readline().split()
        self.assertEqual(said[:2], ["member", "as"])
        self.assertIn(GROUP, BED.run("H1", "saquery", "-g"))
        self.assert_agent_answers(receiver, lids["H2"])
        sender = self.start("H1", "send", gid, said[2])
        heard = {sender.stdout.readline() for _ in range(2)}
        self.assertEqual(heard, {f"service at {gid}\n", f"path to LID {lids['H2']}\n"})
        arrived = {receiver.stdout.readline() for _ in range(3)}
        self.assertEqual(arrived, {f"{kind} from LID {lids['H1']}: head hello\n" for kind in ("unicast", "multicast")}
                         | {"both\n"})

    def assert_agent_answers(self, receiver, lid):
        fields = fields_of(BED.run("H1", "smpquery", "portinfo", str(lid), "1"))
        self.assertTrue(int(fields["CapMask"], 16) & DEVICE_MANAGEMENT)
        if not are_installed("ibsrpdm"):
            return
        # The manager knows of the agent when its trap has come.
        wait_until(lambda: "IsDeviceManagementSupported" in BED.run("H1", "saquery", "PIR", str(lid)), SECONDS_MAX,
                   "the manager to know of the agent")
        BED.run("H1", "ibsrpdm", "-c", check=False)
        self.assertEqual(receiver.stdout.readline(), "asked for attribute 0x10\n")  # IOUnitInfo.


def main():
    global OPTIONS, BED
    OPTIONS = option_parser(__doc__).parse_args()
    if not are_installed("opensm", "smpquery", "saquery"):
        return SKIPPED
    with FabricBed(OPTIONS) as BED:
        BED.up(CHAIN)
        BED.start_manager("H1")
        BED.wait_until_active("H1", "H2")
        run_tests()
    return 0


if __name__ == "__main__":
    sys.exit(main())
