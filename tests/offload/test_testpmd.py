#!/usr/bin/env python3
"""Debian's dpdk-testpmd as the card's client: what Open vSwitch does not ask for. Takes the build's folder. Frames go in at an
interface of the card and must come out at another one, or be counted."""

import os
import re
import struct
import sys
import unittest

import pmd
from pmd import frame, ip, udp, udp_frame, vxlan
from pmd_case import ETH, IP, RULES, UDP, WithTestPmd
from shared_actions import SharedActions  # noqa: F401  (unittest finds its tests here)


class Rules(WithTestPmd):
    def test_output_and_count(self):
        rule = self.create(f"1 transfer pattern {UDP} / end actions count / port_id id 2 / end")
        sent = [udp_frame(to=port) for port in range(5)]
        self.assertEqual(self.out(*sent), sent)
        self.assertEqual(self.count(rule), 5)

    def test_ranges(self):
        """Of ports, addresses, TTL: both ends are in, their neighbours are not."""
        self.create(f"1 transfer pattern {UDP} dst spec 100 dst last 200 dst mask 0xffff / end actions port_id id 2 / end")
        sent = [udp_frame(to=port) for port in (99, 100, 101, 199, 200, 201, 0x164)]
        self.assertEqual(self.out(*sent), sent[1:5])
        self.pmd.ask("flow flush 1")
        self.setUp()
        self.create(f"1 transfer pattern {ETH} ipv4 src spec 10.9.0.5 src last 10.9.1.3 src mask 255.255.255.255 "
                    "/ udp src spec 7 src last 9 src mask 0xffff / end actions port_id id 2 / end")
        sent = [udp_frame(source=port, to=1) for port in (7, 8)]
        self.assertEqual(self.out(*sent), [])
        hits = [frame(ip(17, udp(8, 1), source=(10, 9, *last))) for last in ((0, 4), (0, 5), (0, 255), (1, 3), (1, 4))]
        self.assertEqual(self.out(*hits), hits[1:4])

    def test_many_ranges_of_one_shape(self):
        for i in range(20):
            self.create(f"1 transfer pattern {UDP} dst spec {i * 10} dst last {i * 10 + 4} dst mask 0xffff / end "
                        "actions port_id id 2 / end")
        sent = [udp_frame(to=port) for port in range(200)]
        self.assertEqual(self.out(*sent), [one for port, one in enumerate(sent) if port % 10 < 5])

    def test_priorities(self):
        """0 wins."""
        self.create(f"1 priority 5 transfer pattern {UDP} / end actions port_id id 2 / end")
        drop = self.create(f"1 priority 1 transfer pattern {UDP} dst is 7 / end actions count / drop / end")
        sent = [udp_frame(to=port) for port in (6, 7, 8)]
        self.assertEqual(self.out(*sent), [sent[0], sent[2]])
        self.assertEqual(self.count(drop), 1)
        self.pmd.ask(f"flow destroy 1 rule {drop}")
        self.assertEqual(self.out(*sent), sent)

    def test_groups(self):
        """A jump counts, too; a group without a rule is software's."""
        jump = self.create(f"1 group 0 transfer pattern {UDP} / end actions count / jump group 9 / end")
        sent = [udp_frame(to=port) for port in (6, 7)]
        self.assertEqual(self.out(*sent), [])
        self.create(f"1 group 9 transfer pattern {UDP} dst is 7 / end actions port_id id 2 / end")
        self.assertEqual(self.out(*sent), sent[1:])
        self.assertEqual(self.count(jump), 4)

    def test_flush_is_the_ports(self):
        rule = f"transfer pattern {UDP} / end actions port_id id 2 / end"
        self.create(f"0 {rule}")
        self.create(f"1 {rule}")
        self.pmd.ask("flow flush 0")
        self.assertIn("1", self.pmd.ask("flow list 1"))
        self.assertEqual(self.out(udp_frame()), [udp_frame()])

    def test_dump(self):
        self.create(f"1 transfer pattern {UDP} dst spec 100 dst last 200 dst mask 0xffff / end actions port_id id 2 / end")
        self.pmd.ask(f"flow dump 1 all {self.folder.name}/dump")
        with open(f"{self.folder.name}/dump", encoding="utf-8") as dump:
            said = dump.read()
        self.assertIn("udp dst spec 0x64 dst last 0xc8 dst mask 0xffff", said)
        self.assertIn("dst last 0xc8", self.card.command("flows"))

    def test_refusals(self):
        for rule, words in (
                (f"1 egress pattern {UDP} / end actions drop / end", "egress"),
                (f"1 group 256 transfer pattern {UDP} / end actions drop / end", "group: 0 to 255"),
                (f"1 transfer pattern {IP} mpls / end actions drop / end", "does not match this"),
                (f"1 transfer pattern {UDP} dst spec 9 dst last 5 dst mask 0xffff / end actions drop / end",
                 "does not match this"),
                (f"1 transfer pattern {UDP} dst is 4790 / vxlan / end actions drop / end", "does not match this"),
                (f"1 transfer pattern {UDP} / end actions queue index 0 / end", "does not do this"),
                (f"1 transfer pattern {UDP} / end actions port_id id 2 / drop / end", "does not do this"),
                (f"1 transfer pattern {UDP} / end actions meter mtr_id 77 / port_id id 2 / end", "does not do this"),
                (f"1 ingress pattern {UDP} / end actions port_id id 2 / end", "does not do this"),
                (f"1 transfer pattern {UDP} / end actions jump group 300 / end", "does not do this")):
            self.refused(rule, words)
        self.assertIn("software's", self.pmd.ask("flow isolate 1 1"))

    def test_full_table(self):
        made = []
        while True:
            said = self.pmd.ask(f"flow create 1 transfer pattern {UDP} dst is {len(made)} / end actions port_id id 2 / end")
            if "created" not in said:
                break
            made.append(said)
        self.assertIn("table is full", said)
        self.assertIn("No space left", said)
        self.assertEqual(len(made), RULES - 2)
        self.pmd.ask("flow flush 1")
        self.setUp()
        self.create(f"1 transfer pattern {UDP} / end actions port_id id 2 / end")


class OtherCommands(WithTestPmd):
    """What testpmd has besides `flow create`: it works, or is refused with a sentence, and rules can be made after it."""

    def test_validate(self):
        self.assertIn("Flow rule validated", self.pmd.ask(f"flow validate 1 transfer pattern {UDP} / end actions drop / end"))
        self.assertIn("does not match this", self.pmd.ask(f"flow validate 1 transfer pattern {IP} mpls / end actions drop / end"))
        self.assertEqual(self.out(udp_frame()), [])

    def test_isolated_mode_ends_and_does_not_begin(self):
        self.assertIn("not restricted anymore", self.pmd.ask("flow isolate 1 0"))
        self.assertIn("frames without a rule are software's", self.pmd.ask("flow isolate 1 1"))

    def test_refused(self):
        rule = self.create(f"1 transfer pattern {UDP} / end actions count / port_id id 2 / end")
        for command, words in (
                ("flow indirect_action 1 create action_id 5 transfer action drop / end", "counters, ages and meters"),
                (f"flow query 1 {rule} rss", "counters and ages are queried"),
                (f"flow query 1 {rule} age", "does not age"),
                ("flow query 1 999 count", "not found"),
                ("flow info 1", "not support"),
                ("flow configure 1 queues_number 1 queues_size 16", "Invalid argument"),
                ("flow pattern_template 1 create pattern_template_id 1 transfer template eth / end", "not configured"),
                ("flow actions_template 1 create actions_template_id 1 template drop / end mask drop / end", "not configured")):
            with self.subTest(command):
                self.assertIn(words, self.pmd.ask(command))
        self.assertEqual(self.out(udp_frame()), [udp_frame()])
        self.assertEqual(self.count(rule), 1)


class Queues(WithTestPmd):
    def packets(self):
        """That software's queues have received, by the queue."""
        said = self.pmd.ask("show port xstats 1")
        return [int(re.search(rf"rx_q{queue}_packets: (\d+)", said)[1]) for queue in (0, 1)]

    def test_table_spreads_frames(self):
        self.pmd.ask("set fwd rxonly")
        self.pmd.ask("start")
        for first in range(0, 128, 8):
            table = ",".join(f"({entry},1)" for entry in range(first, first + 8))
            self.assertNotRegex(self.pmd.ask(f"port config 1 rss reta {table}"), "(?i)error|bad|fail", table)
        before = self.packets()
        self.out(*[udp_frame(to=port) for port in range(40)])
        self.until(lambda: sum(self.packets()) - sum(before) >= 40, "software does not get its frames")
        self.assertEqual(self.packets()[0], before[0])
        self.pmd.ask("stop")


class Tunnels(WithTestPmd):
    def test_encapsulated_and_back(self):
        """What leaves as VXLAN is what was sent, when it comes back."""
        self.pmd.ask("set vxlan ip-version ipv4 vni 42 udp-src 0 udp-dst 4789 ip-src 1.1.1.1 ip-dst 2.2.2.2 "
                     "eth-src 02:00:00:00:00:11 eth-dst 02:00:00:00:00:12")
        self.create(f"1 transfer pattern {UDP} / end actions vxlan_encap / port_id id 2 / end")
        sent = udp_frame()
        outer, = self.out(sent)
        self.assertEqual(outer[50:], sent)
        self.assertEqual(outer[42:50], struct.pack("!II", 0x08000000, 42 << 8))
        self.assertEqual(outer[:14].hex(), "0200000000120200000000110800")
        self.create(f"0 transfer pattern {UDP} / vxlan vni is 42 / eth / ipv4 / udp dst is 2000 / end "
                    "actions vxlan_decap / port_id id 2 / end")
        self.assertEqual(self.out(outer, source="tup"), [sent])

    def test_matches_what_is_inside(self):
        """Network, inner addresses and ports, and a range of them: all in one rule, with what the tunnel's headers say."""
        self.create("0 priority 3 transfer pattern eth / ipv4 src is 10.9.0.1 / udp / vxlan vni is 7 / eth / "
                    "ipv4 dst is 10.9.0.9 / udp dst spec 10 dst last 12 dst mask 0xffff / end actions vxlan_decap / "
                    "set_mac_dst mac_addr 02:00:00:00:00:33 / port_id id 2 / end")

        def inner(to, last=9):
            return frame(ip(17, udp(1, to), to=(10, 9, 0, last)))

        sent = [vxlan(7, inner(10)), vxlan(8, inner(10)), vxlan(7, inner(12)), vxlan(7, inner(13)), vxlan(7, inner(11, 8)),
                inner(11), vxlan(7, inner(11), port=4790)]
        wanted = [bytes((2, 0, 0, 0, 0, 0x33)) + inner(to)[6:] for to in (10, 12)]
        self.assertEqual(self.out(*sent, source="tup"), wanted)

    def test_many_flows_of_one_tunnel(self):
        for port in range(60):
            self.create(f"0 transfer pattern {UDP} / vxlan vni is 7 / eth / ipv4 / udp dst is {port} / end "
                        f"actions vxlan_decap / set_tp_dst port {1000 + port} / port_id id 2 / end")
        sent = [vxlan(7, udp_frame(to=port)) for port in range(64)]
        self.assertEqual(self.out(*sent, source="tup"), [udp_frame(to=1000 + port) for port in range(60)])

    def test_geneve(self):
        self.pmd.ask("set raw_encap 0 eth src is 02:00:00:00:00:11 dst is 02:00:00:00:00:12 / ipv4 src is 1.1.1.1 dst is "
                     "2.2.2.2 / udp src is 9 dst is 6081 / geneve protocol is 0x6558 vni is 5 / end_set")
        self.create(f"1 transfer pattern {UDP} / end actions raw_encap index 0 / port_id id 2 / end")
        outer, = self.out(udp_frame())
        self.assertEqual(outer[50:], udp_frame())
        self.pmd.ask("set raw_decap 0 eth / ipv4 / udp / geneve / end_set")
        self.create(f"0 transfer pattern {UDP} / geneve vni is 5 / eth / ipv4 / end actions raw_decap index 0 / "
                    "port_id id 2 / end")
        self.assertEqual(self.out(outer, source="tup"), [udp_frame()])

    def test_geneve_options(self):
        """By class and type at any place, by data under a mask."""
        def geneve(*options):
            header = struct.pack("!BBHI", sum(map(len, options)) // 4, 0, 0x6558, 5 << 8) + b"".join(options)
            return frame(ip(17, udp(5555, 6081, header + udp_frame())))

        def option(kind, *words):
            return struct.pack(f"!HBB{len(words)}I", 0x102, kind, len(words), *words)

        rule = (f"0 transfer pattern {UDP} / geneve vni is 5 / geneve-opt class is 0x102 type is 1 length is 1 data is 0x{{}} / "
                "eth / ipv4 / end actions vxlan_decap / set_tp_dst port {} / port_id id 2 / end")
        self.create(rule.format("11223344", 1))
        self.create(rule.format("11223355", 2))
        sent = [geneve(option(1, word)) for word in (0x11223344, 0x11223355, 0x11223366)]
        sent += [geneve(), geneve(option(2, 0x11223344)), geneve(option(3, 1, 2), option(1, 0x11223344)),
                 geneve(option(1, 0x11223344, 0))]
        self.assertEqual(self.out(*sent, source="tup"), [udp_frame(to=1), udp_frame(to=2), udp_frame(to=1)])
        self.assertIn("geneve-opt class is 0x0102 type is 0x01 length is 1 data is 0x11223344", self.card.command("flows"))
        self.refused(f"0 transfer pattern {UDP} / vxlan / geneve-opt class is 1 type is 1 / end actions drop / end",
                     "does not match this")

    def test_gre(self):
        """NVGRE, and a packet without Ethernet."""
        self.create(f"0 transfer pattern {IP} nvgre tni is 6 / eth / ipv4 / udp dst is 2000 / end actions nvgre_decap / "
                    "port_id id 2 / end")
        self.create(f"0 transfer pattern {IP} gre protocol is 0x0800 / ipv4 / udp dst is 2001 / end actions nvgre_decap / "
                    "port_id id 2 / end")
        sent = [frame(ip(47, struct.pack("!HHI", 0x2000, 0x6558, 6 << 8) + udp_frame())),
                frame(ip(47, struct.pack("!HHI", 0x2000, 0x6558, 7 << 8) + udp_frame())),
                frame(ip(47, struct.pack("!HH", 0, 0x0800) + udp_frame(to=2001)[14:]))]
        self.assertEqual(self.out(*sent, source="tup"), [udp_frame(), udp_frame(to=2001)])

    def test_tunnel_offload(self):
        """rte_flow_tunnel_decap_set and rte_flow_tunnel_match, as Open vSwitch asks where it is built with them."""
        self.assertIn("tunnel #1", self.pmd.ask("flow tunnel create 0 type vxlan"))
        first = self.create(f"0 transfer tunnel_set 1 pattern {UDP} dst is 4789 / vxlan / end "
                            "actions count / jump group 0 / end")
        self.assertEqual(self.out(vxlan(42, udp_frame()), source="tup"), [])
        self.create(f"0 transfer tunnel_match 1 pattern {UDP} dst is 4789 / vxlan vni is 42 / eth / ipv4 / end "
                    "actions port_id id 2 / end")
        sent = [vxlan(42, udp_frame()), vxlan(43, udp_frame()), udp_frame(to=1)]
        self.assertEqual(self.out(*sent, source="tup"), [udp_frame()])
        self.assertEqual(self.count(first, port=0), 3)
        self.pmd.ask("flow flush 0")
        self.pmd.ask("flow tunnel destroy 0 id 1")


class Meters(WithTestPmd):
    def test_meter(self):
        """One packet a second, in bursts of three: red ones are dropped, and all are counted."""
        for command in ("add port meter profile srtcm_rfc2697 1 7 1 3 0 1",
                        "add port meter policy 1 3 g_actions end y_actions end r_actions drop / end",
                        "create port meter 1 5 7 3 yes 0xffff 0 g 0"):
            said = self.pmd.ask(command)
            self.assertNotRegex(said, "rror|Bad", command)
        rule = self.create(f"1 transfer pattern {UDP} / end actions meter mtr_id 5 / port_id id 2 / end")
        passed = len(self.out(*[udp_frame()] * 20))
        self.assertTrue(3 <= passed <= 6, passed)
        said = self.pmd.ask("show port meter stats 1 5 no")
        self.assertRegex(said, rf"(?i)pkts G: {passed}\b")
        self.assertRegex(said, rf"(?i)pkts DROPPED: {20 - passed}\b")
        self.assertIn("rules name the meter", self.pmd.ask("del port meter 1 5"))
        self.assertIn("in use", self.pmd.ask("del port meter profile 1 7"))
        self.pmd.ask("disable port meter 1 5")
        self.assertEqual(len(self.out(*[udp_frame()] * 20)), 20)
        self.pmd.ask(f"flow destroy 1 rule {rule}")
        for command in ("del port meter 1 5", "del port meter policy 1 3", "del port meter profile 1 7"):
            self.assertNotIn("rror", self.pmd.ask(command), command)

    def test_refusals(self):
        self.assertIn("RFC 2697 and RFC 2698", self.pmd.ask("add port meter profile trtcm_rfc4115 1 8 1 1 1 1 0"))
        self.assertIn("passes", self.pmd.ask("add port meter policy 1 4 g_actions queue index 0 / end y_actions end "
                                             "r_actions drop / end"))
        self.assertIn("no profile", self.pmd.ask("create port meter 1 6 99 3 yes 0xffff 0 g 0"))


class Ageing(WithTestPmd):
    def test_a_rule_without_traffic_ages(self):
        idle = self.create(f"1 transfer pattern {UDP} dst is 1 / end actions age timeout 1 / port_id id 2 / end")
        busy = self.create(f"1 transfer pattern {UDP} dst is 2 / end actions age timeout 3600 / port_id id 2 / end")

        def has_aged(rule):
            self.out(udp_frame(to=2))
            return "aged: 1" in self.pmd.ask(f"flow query 1 {rule} age").lower()

        self.until(lambda: has_aged(idle), "the rule does not age")
        self.assertFalse(has_aged(busy))
        said = self.pmd.ask("flow aged 1")
        self.assertRegex(said, r"total aged flows: 1\b")
        self.pmd.ask("flow aged 1 destroy")
        self.assertRegex(self.pmd.ask("flow aged 1"), r"total aged flows: 0\b")
        self.assertNotRegex(self.pmd.ask("flow list 1"), rf"(?m)^{idle}\s")


def main():
    WithTestPmd.build = os.path.abspath(sys.argv[1])
    status = pmd.inside(WithTestPmd.build, os.path.abspath(__file__))
    if status is not None:
        return status
    result = unittest.main(argv=[sys.argv[0], *sys.argv[2:]], exit=False, verbosity=2).result
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
