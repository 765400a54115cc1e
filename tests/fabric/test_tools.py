#!/usr/bin/env python3
"""Debian's management programs on a fabric of three switches and four hosts under Debian's opensm: what they say is
compared with the topology."""

import itertools
import re
import sys
import unittest

from fabricbed import CABLES, HOSTS, SWITCHES, TRIANGLE, FabricBed, fields_of, run_tests

from testbed import SKIPPED, are_installed, option_parser, wait_until

BED = None  # Set in main.
NODES = HOSTS + SWITCHES


class OwnPort(unittest.TestCase):
    def test_ibstat(self):
        for host in HOSTS:
            text = BED.run(host, "ibstat")
            self.assertIn("CA 'verbatim0'", text)
            first = text.split("Port 1:")[1].split("Port 2:")[0]
            for line in ("State: Active", "Physical state: LinkUp", "Rate: 10", f"Base lid: {BED.lids()[host]}",
                         f"SM lid: {BED.lids()['H1']}", "Link layer: InfiniBand"):
                self.assertIn(line, first)
            self.assertIn("State: Down", text.split("Port 2:")[1])

    def test_ibstatus_reads_the_view(self):
        wait_until(lambda: f"{BED.lids()['H2']:#x}" in BED.run("H2", "ibstatus"), 30, "the view to have the LID")
        text = BED.run("H2", "ibstatus", "verbatim0:1")
        self.assertIn("state:\t\t 4: ACTIVE", text)
        self.assertIn("rate:\t\t 10 Gb/sec (4X SDR)", text)
        self.assertIn("link_layer:\t InfiniBand", text)

    def test_ibaddr(self):
        self.assertIn(f"LID start {BED.lids()['H3']:#x} end {BED.lids()['H3']:#x}", BED.run("H3", "ibaddr"))

    def test_sminfo(self):
        text = BED.run("H4", "sminfo")
        self.assertIn(f"sm lid {BED.lids()['H1']} sm guid", text)
        self.assertIn("state 3 SMINFO_MASTER", text)


class Discovery(unittest.TestCase):
    def test_ibnetdiscover_finds_every_cable(self):
        text = BED.run("H2", "ibnetdiscover")
        names = dict(re.findall(r'^(?:Switch|Ca)\s+\d+ "([HS]-\w+)"\s+# "(\w+)"', text, re.MULTILINE))
        self.assertEqual(sorted(names.values()), sorted(NODES))
        found = {}
        for block in text.split("\n\n"):
            head = re.search(r'^Switch\s+36 "(S-\w+)"', block, re.MULTILINE)
            for port, peer, peer_port in re.findall(r'^\[(\d+)\]\s+"(\S+)"\[(\d+)\]', block, re.MULTILINE):
                if head:
                    found[names[head[1]], int(port)] = (names[peer], int(peer_port))
        self.assertEqual(found, CABLES)
        self.assertEqual(len(re.findall(r"4xSDR$", text, re.MULTILINE)), len(CABLES) + len(HOSTS))

    def test_what_it_prints_is_a_topology(self):
        BED.up(BED.run("H1", "ibnetdiscover"), "--name", "copy")
        try:
            links = [{frozenset((end["node"], end["port"]) for end in (link["a"], link["b"]))
                      for link in fabric["links"]} for fabric in (BED.status("--name", "copy"), BED.status())]
            self.assertEqual(*links)
        finally:
            BED.verbatim("fabric", "down", "--name", "copy")

    def test_lists_of_nodes(self):
        for command, nodes in (("ibhosts", HOSTS), ("ibswitches", SWITCHES), ("ibnodes", NODES)):
            self.assertEqual(sorted(re.findall(r'"(\w+)"', BED.run("H1", command))), sorted(nodes))

    def test_iblinkinfo(self):
        lines = [line for line in BED.run("H1", "iblinkinfo", "-l").splitlines() if "LinkUp" in line]
        self.assertEqual(len(lines), len(CABLES) + len(HOSTS))
        for line in lines:
            self.assertRegex(line, r"4X\s+2\.5 Gbps Active/\s+LinkUp")


class Routes(unittest.TestCase):
    def test_ibtracert_between_all_hosts(self):
        for source, destination in itertools.permutations(HOSTS, 2):
            text = BED.run("H1", "ibtracert", str(BED.lids()[source]), str(BED.lids()[destination]))
            self.assertIn(f'"{destination}"', text.splitlines()[-1])
            # Each step leaves by a port whose cable leads to where it says.
            steps = re.findall(r'^\[(\d+)\] -> (?:switch|ca) port \{\w+\}\[(\d+)\] lid \S+ "(\w+)"', text, re.MULTILINE)
            at = source
            for out, arrival, name in steps:
                cable = CABLES if at in SWITCHES else {peer: end for end, peer in CABLES.items()}
                self.assertEqual(cable[at, int(out)], (name, int(arrival)), text)
                at = name
            self.assertEqual(at, destination)

    def test_ibroute_knows_every_lid(self):
        for switch in SWITCHES:
            text = BED.run("H3", "ibroute", str(BED.lids()[switch]))
            routes = {int(lid, 16): int(port) for lid, port in re.findall(r"^(0x\w{4}) (\d{3}) :", text, re.MULTILINE)}
            self.assertEqual(sorted(routes), sorted(BED.lids().values()))
            self.assertEqual(routes[BED.lids()[switch]], 0)
            for (node, port), (peer, _) in CABLES.items():
                if node == switch:
                    self.assertEqual(routes[BED.lids()[peer]], port)

    def test_dump_of_tables(self):
        self.assertEqual(BED.run("H1", "dump_fts").count(f"{len(NODES)} valid lids dumped"), len(SWITCHES))

    def test_check_lft_balance(self):
        tables, cache = f"{BED.folder}/tables", f"{BED.folder}/cache"
        BED.run("H1", "ibnetdiscover", "--cache", cache)
        with open(tables, "w", encoding="ascii") as file:
            file.write(BED.run("H1", "dump_fts"))
        text = BED.run("H1", "check_lft_balance", "-l", tables, "-i", cache, "-v")
        self.assertEqual(sorted(re.findall(r"Switch Port Usage: (\w+)", text)), sorted(SWITCHES))

    def test_ibcacheedit(self):
        cache, edited = f"{BED.folder}/cache", f"{BED.folder}/edited"
        BED.run("H1", "ibnetdiscover", "--cache", cache)
        guid = BED.nodes()["S1"]["guid"]
        BED.run("H1", "ibcacheedit", "--switchguid", f"{guid}:0x77", cache, edited)
        text = BED.run("H1", "ibnetdiscover", "--load-cache", edited)
        self.assertRegex(text, r'Switch\s+36 "S-0{14}77"\s+# "S1"')

    def test_ibfindnodesusing_the_cable_between_switches(self):
        guid = BED.nodes()["S1"]["guid"]
        text = BED.run("H1", *BED.with_own("/var/cache", "ibfindnodesusing", "-R", guid, "3"))
        self.assertEqual(CABLES["S1", 3][0], "S2")
        self.assertIn(" H3\n", text.split("<<==")[0])
        self.assertIn(" H1-2\n", text.split("<<==")[1])


class Attributes(unittest.TestCase):
    def test_smpquery(self):
        lid = str(BED.lids()["S1"])
        node = fields_of(BED.run("H1", "smpquery", "NI", lid))
        self.assertEqual((node["NodeType"], node["NumPorts"]), ("Switch", "36"))
        self.assertIn("S1", BED.run("H1", "smpquery", "ND", lid))
        port = fields_of(BED.run("H1", "smpquery", "PI", lid, "1"))
        self.assertEqual((port["LinkState"], port["PhysLinkState"]), ("Active", "LinkUp"))
        self.assertEqual(port["LinkSpeedActive"], "2.5 Gbps")
        self.assertIn("LinearFdbCap", BED.run("H1", "smpquery", "SI", lid))
        self.assertIn("0xffff", BED.run("H1", "smpquery", "PKeys", str(BED.lids()["H2"])))
        for operation in ("SL2VL", "VLArb", "GI"):
            BED.run("H1", "smpquery", operation, str(BED.lids()["H2"]), "1")
        self.assertIn("H4", BED.run("H1", "smpquery", "-D", "ND", "0,1,4,1"))

    def test_perfquery(self):
        for node, port in (("S2", 1), ("H2", 1)):
            counters = fields_of(BED.run("H1", "perfquery", str(BED.lids()[node]), str(port)))
            self.assertEqual(counters["SymbolErrorCounter"], "0")
            self.assertIn("PortXmitPkts", BED.run("H1", "perfquery", "-x", str(BED.lids()[node]), str(port)))

    def test_counters_by_lane_and_by_service_level(self):
        if not are_installed("ib_send_bw"):
            self.skipTest("no ib_send_bw")
        BED.run_pair("H1", "H3", "ib_send_bw", "-F", "-n", "10")
        port = (str(BED.lids()["S2"]), "1")
        packets = fields_of(BED.run("H1", "perfquery", "--vloppackets", *port))
        self.assertGreater(int(packets["PortVLOpPackets0"]), 0)
        self.assertEqual(packets["PortVLOpPackets1"], "0")
        self.assertGreater(int(fields_of(BED.run("H1", "perfquery", "-X", *port))["XmtDataSL0"]), 0)

    def test_smpdump_prints_bytes(self):
        words = BED.run("H1", "smpdump", "-D", "0,1", "0x11").split()
        self.assertEqual(words[:2], ["0101", "0224"], "NodeInfo: version 1 and 1, a switch of 36 ports")

    def test_ibqueryerrors(self):
        text = BED.run("H1", "ibqueryerrors", "-s", "PortXmitWait")
        self.assertIn(f"{len(NODES)} nodes checked, 0 bad nodes found", text)

    def test_ibportstate_of_a_switch_goes_by_a_mixed_route(self):
        text = BED.run("H3", "ibportstate", str(BED.lids()["S3"]), "1", "query")
        self.assertEqual(fields_of(text)["LinkState"], "Active")


class Administration(unittest.TestCase):
    def test_class_port_info(self):
        self.assertIn("Capability mask..........0x2602", BED.run("H3", "saquery", "CPI"))

    def test_tables_come_whole_by_rmpp(self):
        self.assertEqual(set(re.findall(r"NodeDescription\.+(\S+)", BED.run("H4", "saquery", "NR"))), set(NODES))
        self.assertEqual(BED.run("H4", "saquery", "LR").count("LinkRecord dump"), len(CABLES) + len(HOSTS))

    def test_a_path(self):
        text = BED.run("H2", "saquery", "--src-to-dst", f"{BED.lids()['H2']}:{BED.lids()['H4']}")
        path = fields_of(text)
        self.assertEqual((path["slid"], path["dlid"]), (str(BED.lids()["H2"]), str(BED.lids()["H4"])))

    def test_groups(self):
        self.assertIn("0xC000", BED.run("H2", "saquery", "-g"))


class Ping(unittest.TestCase):
    def test_ibping(self):
        server = BED.start("H4", "ibping", "-S")
        try:
            wait_until(lambda: "0% packet loss" in BED.run("H1", "ibping", "-c", "1", str(BED.lids()["H4"]), check=False)
                       .replace("100% packet loss", ""), 30, "an answer of ibping -S")
            self.assertIn("5 packets transmitted, 5 received, 0% packet loss",
                          BED.run("H1", "ibping", "-c", "5", "-f", str(BED.lids()["H4"])))
        finally:
            BED.end(server)


def main():
    global BED
    options = option_parser(__doc__).parse_args()
    if not are_installed("opensm", "ibnetdiscover", "ibping"):
        return SKIPPED
    with FabricBed(options) as BED:
        BED.up(TRIANGLE, "--manager", "opensm")
        run_tests()
    return 0


if __name__ == "__main__":
    sys.exit(main())
