#!/usr/bin/env python3
"""Interfaces of IP over InfiniBand: of a host's two ports, names by rules, a standby subnet manager; and of twenty hosts at
once (--all)."""

import json
import re
import subprocess
import sys

import test_ipoib as base

from fabricbed import FabricBed, run_tests, wait_for_text  # noqa: E402 (found by test_ipoib)
from testbed import SKIPPED, are_installed, option_parser  # noqa: E402

TWO_PORTS = """
Switch 8 "S1"
[1] "H1"[1]
[2] "H1"[2]
[3] "H2"[1]
[4] "H2"[2]

Hca 2 "H1"
[1] "S1"[1]
[2] "S1"[2]

Hca 2 "H2"
[1] "S1"[3]
[2] "S1"[4]
"""
SECOND = {"H1": ("10.8.0.1", "fd08::1"), "H2": ("10.8.0.2", "fd08::2")}
RULE = 'ACTION=="add", SUBSYSTEM=="net", DRIVERS=="?*", ATTR{{type}}=="32", ATTR{{address}}=="?*{tail}", NAME="{name}"\n'


def commands_of_rdma_cm(own_gid, peer_gid):
    """Servers and clients, by the addresses of the second ports, and by their GIDs (AF_IB). They send much more than
    the subnet manager at the first port."""
    (own, _), (peer, peer6) = SECOND["H1"], SECOND["H2"]
    return ((f"rping -s -v -a {peer} -C 100", f"rping -c -v -a {peer} -C 100"),
            (f"rping -s -v -a {peer6} -C 100", f"rping -c -v -a {peer6} -C 100"),
            ("rping -s -v -C 100", f"rping -c -v -a {peer} -I {own} -C 100"),
            ("udaddy -C 100", f"udaddy -C 100 -s {peer}"),
            (f"ucmatose -C 100 -f gid -b {peer_gid}", f"ucmatose -C 100 -f gid -b {own_gid} -s {peer_gid}"),
            ("ib_write_bw -R -n 1000", f"ib_write_bw -R -n 1000 {peer}"))


class IpoibOfTwoPorts(base.IpoibTest):
    def setUp(self):
        self.bed = self.make_bed(base.OPTIONS)
        self.bed.end_with(self)
        self.bed.up(TWO_PORTS)
        self.bed.start_manager("H1")
        self.bed.wait_until_active(*base.HOSTS)
        self.places = {host: self.enterContext(base.namespaces()) for host in base.HOSTS}

    def test_both_ports_carry_packets(self):
        for host in base.HOSTS:
            self.up(host)
            self.up(host, "--port", "2", name="ib1", addresses=SECOND[host])
        for addresses in (base.HOSTS["H2"], SECOND["H2"]):
            for address, header in zip(addresses, (28, 48)):
                self.ping("H1", address, "-s", str(base.MTU - header), "-M", "do")
        second = json.loads(self.bed.verbatim("ipoib", "show", "--json", "--host", "H1", "--port", "2"))
        self.assertEqual((second["interface"], second["port"]), ("ib1", 2))
        self.assertNotEqual((second["gid"], second["lid"]), (self.shown("H1")["gid"], self.shown("H1")["lid"]))
        for listener in base.HOSTS:
            counted = json.loads(self.on(listener, "ip", "-json", "-s", "link", "show", "ib1"))[0]["stats64"]
            self.assertGreater(counted["rx"]["packets"], 3)
            self.assertGreater(counted["tx"]["packets"], 3)

    def sent_by(self, host, port):
        return int(self.bed.run(host, "cat", f"/sys/class/infiniband/verbatim0/ports/{port}/counters/port_xmit_packets"))

    def test_second_ports_are_connected(self):
        for host in base.HOSTS:
            self.up(host, "--port", "2", *base.CONNECTED, name="ib1", addresses=SECOND[host])
        for address, header in zip(SECOND["H2"], (28, 48)):
            self.ping("H1", address, "-s", str(base.CONNECTED_MTU - header), "-M", "do")
        shown = json.loads(self.bed.verbatim("ipoib", "show", "--json", "--host", "H1", "--port", "2"))
        self.assertGreater(shown["counters"]["connected_sent"], 3)

    def test_rdma_cm_by_addresses_of_second_ports(self):
        """Beside interfaces of the first ports: what the programs send leaves by the second ones."""
        for host in base.HOSTS:
            self.up(host)
        for mode in ((), base.CONNECTED):
            for host in base.HOSTS:
                self.up(host, "--port", "2", *mode, name="ib1", addresses=SECOND[host])
            gids = [json.loads(self.bed.verbatim("ipoib", "show", "--json", "--host", host, "--name", "ib1"))["gid"]
                    for host in ("H1", "H2")]
            for server, client in commands_of_rdma_cm(*gids):
                with self.subTest(server, mode=mode):
                    self.expect_second_port(server, client)
            for host in base.HOSTS:
                self.bed.verbatim("ipoib", "down", "--host", host, "--name", "ib1")

    def expect_second_port(self, server, client):
        before = {port: self.sent_by("H1", port) for port in (1, 2)}
        listens = self.bed.start("H2", *server.split())
        self.wait_until_bound("H2")
        self.bed.run("H1", *client.split())
        self.assertEqual(listens.wait(base.SECONDS_MAX), 0)
        sent = {port: self.sent_by("H1", port) - before[port] for port in (1, 2)}
        self.assertGreater(sent[2], 3 * sent[1])

    def test_groups_of_rdma_cm_at_second_ports(self):
        """The receiver says when it is in the group; what the sender posts leaves by its second port."""
        for host in base.HOSTS:
            self.up(host)
            self.up(host, "--port", "2", name="ib1", addresses=SECOND[host])
        group = ("mckey", "-m", "239.7.8.9", "-C", "100", "-b")
        receiver = self.bed.start("H2", "stdbuf", "-oL", *group, SECOND["H2"][0])
        wait_for_text(f"{self.bed.folder}/stdbuf-H2.out", "joined")
        before = {port: self.sent_by("H1", port) for port in (1, 2)}
        self.bed.run("H1", *group, SECOND["H1"][0], "-s")
        self.assertEqual(receiver.wait(base.SECONDS_MAX), 0)
        sent = {port: self.sent_by("H1", port) - before[port] for port in (1, 2)}
        self.assertGreater(sent[2], sent[1])

    def test_names_by_rules(self):
        self.up("H1")
        gid = self.shown("H1")["gid"]
        self.bed.verbatim("ipoib", "down", "--host", "H1")
        guid = re.sub(":", "", ":".join(part.rjust(4, "0") for part in self.expanded(gid)))[16:]
        tail = ":".join(guid[at:at + 2] for at in range(0, 16, 2))
        rules = f"{self.bed.folder}/70-persistent-ipoib.rules"
        with open(rules, "w", encoding="ascii") as file:
            file.write("# names\n" + RULE.format(tail=tail, name="mlx4_ib3") + RULE.format(tail="00:00", name="no"))
        self.bed.verbatim("ipoib", "up", "--host", "H1", "--netns", str(self.places["H1"].pid), "--names", rules)
        self.on("H1", "ip", "link", "show", "mlx4_ib3")
        self.assertIn("mlx4_ib3: datagram", self.bed.verbatim("ipoib", "show", "--host", "H1", "--names", rules))
        self.bed.verbatim("ipoib", "down", "--host", "H1", "--name", "mlx4_ib3")

    @staticmethod
    def expanded(gid):
        head, _, tail = gid.partition("::")
        first, last = head.split(":"), [part for part in tail.split(":") if part]
        return first + ["0"] * (8 - len(first) - len(last)) + last

    def test_a_standby_manager_takes_over(self):
        """Hosts join their groups again at the next one, which does not know them."""
        for host in base.HOSTS:
            self.up(host)
        stream = self.start_on("H1", "ping", "-i", "0.05", base.HOSTS["H2"][0])
        first = self.manager_of("H1")
        _, log = self.bed.start_manager("H2")
        wait_for_text(log, "Entering STANDBY state")
        first.kill()
        wait_for_text(log, "Entering MASTER state")
        wait_for_text(log, "SUBNET UP")
        for host in base.HOSTS:
            self.ping(host, base.HOSTS["H1" if host == "H2" else "H2"][0])
        self.assertIsNone(stream.poll())

    def manager_of(self, host):
        return next(program for program in self.bed._programs if program.args[-1] and "opensm" in program.args  # pylint: disable=protected-access
                    and host in program.args)


def chain_of(count):
    """Switches in a chain, two hosts at each."""
    switches = (count + 1) // 2
    text = ""
    for number in range(1, switches + 1):
        text += f'\nSwitch 8 "S{number}"\n'
        text += "".join(f'[{at}] "H{2 * number - 2 + at}"[1]\n' for at in (1, 2) if 2 * number - 2 + at <= count)
        text += f'[3] "S{number - 1}"[4]\n' if number > 1 else ""
        text += f'[4] "S{number + 1}"[3]\n' if number < switches else ""
    return text + "".join(f'\nHca 1 "H{host}"\n[1] "S{(host + 1) // 2}"[{2 - host % 2}]\n' for host in range(1, count + 1))


class IpoibOfTwentyHosts(base.IpoibTest):
    hosts = [f"H{number}" for number in range(1, 21)]

    def setUp(self):
        self.bed = self.make_bed(base.OPTIONS)
        self.bed.end_with(self)
        self.bed.up(chain_of(len(self.hosts)))
        self.bed.start_manager("H1")
        self.bed.wait_until_active(*self.hosts)
        self.places = {host: self.enterContext(base.namespaces()) for host in self.hosts}

    def test_each_reaches_the_next(self):
        for number, host in enumerate(self.hosts, 1):
            self.up(host, *(base.CONNECTED if number % 2 else ()), addresses=(f"10.9.0.{number}", f"fd09::{number:x}"))
        pings = [subprocess.Popen(self.command_on(host, "ping", "-c", "3", "-W", "20", f"10.9.0.{number % 20 + 1}"),
                                  stdout=subprocess.PIPE, text=True) for number, host in enumerate(self.hosts, 1)]
        for ping in pings:
            said, _ = ping.communicate(timeout=base.SECONDS_MAX)
            self.assertIn("3 received", said)


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--all", action="store_true", help="the long ones alone")
    base.OPTIONS = parser.parse_args()
    can_make = subprocess.run([*base.NAMESPACES, "sh", "-c", "ip tuntap add t0 mode tun"], check=False, capture_output=True)
    if not are_installed("opensm", "ip", "ping", "nsenter", "rping", "mckey", "ib_write_bw") or can_make.returncode != 0:
        print("needs opensm, ip, ping, rping, mckey, ib_write_bw, and interfaces in a user's network namespace")
        return SKIPPED
    del globals()["IpoibOfTwoPorts" if base.OPTIONS.all else "IpoibOfTwentyHosts"]
    run_tests()
    return 0


if __name__ == "__main__":
    sys.exit(main())
