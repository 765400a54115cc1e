#!/usr/bin/env python3
"""Debian's management programs on a fabric of three switches and four hosts under Debian's opensm: what they say is
compared with the topology."""

import itertools
import json
import os
import re
import sys
import unittest

import fabricbed
from fabricbed import CABLES, HOSTS, SWITCHES, TRIANGLE, FabricBed, fields_of

from testbed import SKIPPED, are_installed, option_parser, wait_until

BED = None  # Set in main.
NODES = HOSTS + SWITCHES


def lids():
    """By node, as the fabric itself says."""
    nodes = json.loads(BED.verbatim("fabric", "show", "--json"))["nodes"]
    return {node["name"]: node["ports"][0]["lid"] for node in nodes}


class OwnPort(unittest.TestCase):
    def test_ibstat(self):
        for host in HOSTS:
            text = BED.run(host, "ibstat")
            self.assertIn("CA 'verbatim0'", text)
            first = text.split("Port 1:")[1].split("Port 2:")[0]
            for line in ("State: Active", "Physical state: LinkUp", "Rate: 10", f"Base lid: {lids()[host]}",
                         f"SM lid: {lids()['H1']}", "Link layer: InfiniBand"):
                self.assertIn(line, first)
            self.assertIn("State: Down", text.split("Port 2:")[1])

    def test_ibstatus_reads_the_view(self):
        wait_until(lambda: f"{lids()['H2']:#x}" in BED.run("H2", "ibstatus"), 30, "the view to have the LID")
        text = BED.run("H2", "ibstatus", "verbatim0:1")
        self.assertIn("state:\t\t 4: ACTIVE", text)
        self.assertIn("rate:\t\t 10 Gb/sec (4X SDR)", text)
        self.assertIn("link_layer:\t InfiniBand", text)

    def test_ibaddr(self):
        self.assertIn(f"LID start {lids()['H3']:#x} end {lids()['H3']:#x}", BED.run("H3", "ibaddr"))

    def test_sminfo(self):
        text = BED.run("H4", "sminfo")
        self.assertIn(f"sm lid {lids()['H1']} sm guid", text)
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
            copy = json.loads(BED.verbatim("fabric", "show", "--name", "copy", "--json"))
            own = json.loads(BED.verbatim("fabric", "show", "--json"))
            links = [{frozenset((end["node"], end["port"]) for end in (link["a"], link["b"]))
                      for link in fabric["links"]} for fabric in (copy, own)]
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
            text = BED.run("H1", "ibtracert", str(lids()[source]), str(lids()[destination]))
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
            text = BED.run("H3", "ibroute", str(lids()[switch]))
            routes = {int(lid, 16): int(port) for lid, port in re.findall(r"^(0x\w{4}) (\d{3}) :", text, re.MULTILINE)}
            self.assertEqual(sorted(routes), sorted(lids().values()))
            self.assertEqual(routes[lids()[switch]], 0)
            for (node, port), (peer, _) in CABLES.items():
                if node == switch:
                    self.assertEqual(routes[lids()[peer]], port)

    def test_dump_of_tables(self):
        self.assertEqual(BED.run("H1", "dump_fts").count(f"{len(NODES)} valid lids dumped"), len(SWITCHES))


class Attributes(unittest.TestCase):
    def test_smpquery(self):
        lid = str(lids()["S1"])
        node = fields_of(BED.run("H1", "smpquery", "NI", lid))
        self.assertEqual((node["NodeType"], node["NumPorts"]), ("Switch", "36"))
        self.assertIn("S1", BED.run("H1", "smpquery", "ND", lid))
        port = fields_of(BED.run("H1", "smpquery", "PI", lid, "1"))
        self.assertEqual((port["LinkState"], port["PhysLinkState"]), ("Active", "LinkUp"))
        self.assertEqual(port["LinkSpeedActive"], "2.5 Gbps")
        self.assertIn("LinearFdbCap", BED.run("H1", "smpquery", "SI", lid))
        self.assertIn("0xffff", BED.run("H1", "smpquery", "PKeys", str(lids()["H2"])))
        for operation in ("SL2VL", "VLArb", "GI"):
            BED.run("H1", "smpquery", operation, str(lids()["H2"]), "1")
        self.assertIn("H4", BED.run("H1", "smpquery", "-D", "ND", "0,1,4,1"))

    def test_perfquery(self):
        for node, port in (("S2", 1), ("H2", 1)):
            counters = fields_of(BED.run("H1", "perfquery", str(lids()[node]), str(port)))
            self.assertEqual(counters["SymbolErrorCounter"], "0")
            self.assertIn("PortXmitPkts", BED.run("H1", "perfquery", "-x", str(lids()[node]), str(port)))

    def test_ibqueryerrors(self):
        text = BED.run("H1", "ibqueryerrors")
        self.assertIn(f"{len(NODES)} nodes checked, 0 bad nodes found", text)

    def test_ibportstate_of_a_switch_goes_by_a_mixed_route(self):
        text = BED.run("H3", "ibportstate", str(lids()["S3"]), "1", "query")
        self.assertEqual(fields_of(text)["LinkState"], "Active")


class Administration(unittest.TestCase):
    def test_class_port_info(self):
        self.assertIn("Capability mask..........0x2602", BED.run("H3", "saquery", "CPI"))

    def test_tables_come_whole_by_rmpp(self):
        self.assertEqual(set(re.findall(r"NodeDescription\.+(\S+)", BED.run("H4", "saquery", "NR"))), set(NODES))
        self.assertEqual(BED.run("H4", "saquery", "LR").count("LinkRecord dump"), len(CABLES) + len(HOSTS))

    def test_a_path(self):
        text = BED.run("H2", "saquery", "--src-to-dst", f"{lids()['H2']}:{lids()['H4']}")
        path = fields_of(text)
        self.assertEqual((path["slid"], path["dlid"]), (str(lids()["H2"]), str(lids()["H4"])))

    def test_groups(self):
        self.assertIn("0xC000", BED.run("H2", "saquery", "-g"))


class Ping(unittest.TestCase):
    def test_ibping(self):
        server = BED.start("H4", "ibping", "-S")
        try:
            wait_until(lambda: "0% packet loss" in BED.run("H1", "ibping", "-c", "1", str(lids()["H4"]), check=False)
                       .replace("100% packet loss", ""), 30, "an answer of ibping -S")
            self.assertIn("5 packets transmitted, 5 received, 0% packet loss",
                          BED.run("H1", "ibping", "-c", "5", "-f", str(lids()["H4"])))
        finally:
            BED.end(server)


def main():
    global BED
    options = option_parser(__doc__).parse_args()
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    if not are_installed("opensm", "ibnetdiscover", "ibping"):
        return SKIPPED
    with FabricBed(options) as BED:
        BED.up(TRIANGLE, "--manager", "opensm")
        result = unittest.main(argv=sys.argv[:1], exit=False, verbosity=2).result
        if not result.wasSuccessful():
            raise fabricbed.Failure("see above")
    return 0


if __name__ == "__main__":
    sys.exit(main())
