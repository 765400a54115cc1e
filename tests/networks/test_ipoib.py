#!/usr/bin/env python3
"""IP over InfiniBand between two hosts of a fabric, three switches apart, each interface in a network namespace of its own:
ping, TCP, multicast, neighbours; a peer that begins anew; and what a wrong set-up says."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).parents[1] / folder) for folder in ("programs", "fabric")]

from fabricbed import CHAIN, FabricBed, run_tests, wait_for_text  # noqa: E402
from testbed import SKIPPED, are_installed, option_parser, wait_until  # noqa: E402

OPTIONS = None  # Set in main.
SECONDS_MAX = 60
MTU = 2044  # Of a link of 2048 bytes, less the encapsulation header.
CONNECTED_MTU = 65520
CONNECTED = ("--mode", "connected")
HOSTS = {"H1": ("10.9.0.1", "fd09::1"), "H2": ("10.9.0.2", "fd09::2")}
UDP = (("-u", "-b", "20M", "-n", "2M"), ("-u", "-b", "20M", "-n", "2M", "-R"))
GROUPS = (("239.1.2.3", "ff12:401b:ffff::f01:203"), ("ff15::77", "ff12:601b:ffff::77"))
WITHOUT_TUN = ("unshare", "--map-root-user", "--mount", "sh", "-c", "mount -t tmpfs none /dev/net && exec \"$@\"", "sh")
# An ordinary user has it not anyway.
WITHOUT_RIGHT = ("setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin") if os.geteuid() == 0 else ()
NAMESPACES = ("unshare", "--map-root-user", "--net")


class BedOfCards(FabricBed):
    """Whose hosts have newer cards."""

    def environment(self):
        return super().environment() | {"VERBATIM_PROFILE": "connectx-7"}


class IpoibTest(unittest.TestCase):
    make_bed = FabricBed
    has_manager = True

    def setUp(self):
        self.bed = self.make_bed(OPTIONS)
        self.bed.end_with(self)
        self.bed.up(CHAIN)
        if self.has_manager:
            self.manager, _ = self.bed.start_manager("H1")
            self.bed.wait_until_active(*HOSTS)
        self.places = {host: self.enterContext(namespaces()) for host in HOSTS}

    def up(self, host, *options, name="ib0", addresses=None):
        self.bed.verbatim("ipoib", "up", "--host", host, "--netns", str(self.places[host].pid), "--name", name, *options)
        self.addCleanup(self.bed.verbatim, "ipoib", "down", "--host", host, "--name", name, check=False)
        ipv4, ipv6 = addresses or HOSTS[host]
        self.on(host, "ip", "address", "add", f"{ipv4}/24", "dev", name)
        self.on(host, "ip", "address", "add", f"{ipv6}/64", "dev", name, "nodad")

    def command_on(self, host, *argv):
        place = ("nsenter", "--target", str(self.places[host].pid), "--user", "--net", "--preserve-credentials")
        return [*place, "setpriv", "--pdeathsig", "KILL", "--", *argv]

    def on(self, host, *argv, fails=False):
        done = subprocess.run(self.command_on(host, *argv), text=True, check=False, capture_output=True,
                              timeout=SECONDS_MAX, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode != 0, fails, f"{argv}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def start_on(self, host, *argv):
        program = subprocess.Popen(self.command_on(host, *argv), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        self.addCleanup(FabricBed.end, program)
        return program

    def shown(self, host):
        return json.loads(self.bed.verbatim("ipoib", "show", "--json", "--host", host))

    def ping(self, host, to, *options):
        self.on(host, "ping", "-c", "2", "-i", "0.2", "-W", "20", *options, to)

    def wait_until_bound(self, host):
        """A program of the host has bound a port of rdma_cm."""
        def bound():
            nodes = json.loads(self.bed.verbatim("status", "--json"))
            return any(one.get("ports") for node in nodes if node.get("host") == host for one in node.get("programs", []))

        wait_until(bound, SECONDS_MAX, f"a port of rdma_cm on {host}")

    def listen(self, host, group, gid, length):
        listener = self.start_on(host, sys.executable, "-c", LISTENER, group, str(length))
        wait_until(lambda: {"gid": gid, "joined": True, "receives": True} in self.shown(host)["groups"], SECONDS_MAX,
                   f"the listener of {group}")
        return listener

    def expect_heard(self, speaker, listener, group, length):
        speaks = self.start_on(speaker, sys.executable, "-c", SPEAKER, group, str(length))
        self.assertEqual(listener.wait(SECONDS_MAX), 0)
        FabricBed.end(speaks)

    def expect_multicast(self, speaker, listener, length):
        """Groups of both families: what is sent to them arrives."""
        for group, gid in GROUPS:
            self.expect_heard(speaker, self.listen(listener, group, gid, length), group, length)

    def refusal(self, *words, prefix=()):
        done = subprocess.run([*prefix, f"{self.bed.build}/bin/verbatim", "ipoib", *words], text=True, check=False,
                              env=self.bed.environment(), capture_output=True, timeout=SECONDS_MAX)
        self.assertNotEqual(done.returncode, 0, words)
        return done.stderr


class IpoibOnCards(IpoibTest):
    make_bed = BedOfCards

    def test_enhanced_ipoib_has_no_connected_mode(self):
        place = str(self.places["H1"].pid)
        self.assertIn("Enhanced IPoIB", self.refusal("up", "--host", "H1", "--netns", place, *CONNECTED))
        self.up("H1")


class IpoibWithoutManager(IpoibTest):
    has_manager = False

    def test_subnet_manager_is_named(self):
        said = self.refusal("up", "--host", "H1", "--netns", str(self.places["H1"].pid))
        self.assertIn("a subnet manager brings the port up ('verbatim fabric up' with '--manager opensm')", said)


class IpoibInPartitions(IpoibTest):
    has_manager = False

    def setUp(self):
        super().setUp()
        partitions = f"{self.bed.folder}/partitions.conf"
        with open(partitions, "w", encoding="ascii") as file:
            file.write("Default=0x7fff, ipoib : ALL=full;\nblue=0x0001, ipoib : ALL=full;\nbare=0x0002 : ALL=full;\n")
        self.bed.start_manager("H1", "-P", partitions)
        self.bed.wait_until_active(*HOSTS)

    def test_children_of_both_modes(self):
        """Beside the interface of the default partition, and not in its groups."""
        blue = {"H1": ("10.8.0.1", "fd08::1"), "H2": ("10.8.0.2", "fd08::2")}
        for host in HOSTS:
            self.up(host)
            self.up(host, "--pkey", "0x8001", *CONNECTED, name="ib0.8001", addresses=blue[host])
        self.ping("H1", HOSTS["H2"][0], "-s", str(MTU - 28), "-M", "do")
        for address, header in zip(blue["H2"], (28, 48)):
            self.ping("H1", address, "-s", str(CONNECTED_MTU - header), "-M", "do")
        shown = json.loads(self.bed.verbatim("ipoib", "show", "--json", "--host", "H1", "--name", "ib0.8001"))
        self.assertEqual((shown["pkey"], shown["mode"]), ("0x8001", "connected"))
        self.assertTrue(all(":8001:" in group["gid"] for group in shown["groups"]))
        place = str(self.places["H1"].pid)
        said = self.refusal("up", "--host", "H1", "--netns", place, "--name", "ib1", "--pkey", "0x8007")
        self.assertIn("0x8007 is not in the port's table, which has 0xffff, 0x8001, 0x8002", said)

    def test_partition_without_its_group_says_so(self):
        place = str(self.places["H1"].pid)
        self.addCleanup(self.bed.verbatim, "ipoib", "down", "--host", "H1", check=False)
        done = subprocess.run([f"{self.bed.build}/bin/verbatim", "ipoib", "up", "--host", "H1", "--netns", place, "--pkey", "2"],
                              env=self.bed.environment(), text=True, check=True, capture_output=True)
        self.assertIn("opensm makes it for partitions with the flag 'ipoib'", done.stderr)
        self.assertFalse(self.shown("H1")["carrier"])


class Ipoib(IpoibTest):
    def test_two_hosts(self):
        for host in HOSTS:
            self.up(host)
        link = json.loads(self.on("H1", "ip", "-json", "link", "show", "ib0"))[0]
        self.assertEqual((link["link_type"], link["mtu"], link["txqlen"]), ("infiniband", MTU, 1000))
        for here, there in (("H1", "H2"), ("H2", "H1")):
            ipv4, ipv6 = HOSTS[there]
            self.ping(here, ipv4, "-s", str(MTU - 28), "-M", "do")
            self.ping(here, ipv6, "-s", str(MTU - 48), "-M", "do")
        self.on("H1", "ping", "-c", "1", "-s", str(MTU - 27), "-M", "do", HOSTS["H2"][0], fails=True)
        own = self.shown("H2")["address"]
        self.assertIn((HOSTS["H2"][0], own),
                      [(one["ip"], one.get("address")) for one in self.shown("H1")["neighbours"]])
        self.assertIn(own, self.bed.verbatim("ipoib", "neigh", "--host", "H1"))
        self.assertIn("service ipoib 'H1.ib0'", self.bed.verbatim("status"))

    def test_a_restarted_peer_is_found_at_once(self):
        for host in HOSTS:
            self.up(host)
        self.ping("H1", HOSTS["H2"][0])
        before = self.shown("H2")["queue_pair"]
        self.bed.verbatim("ipoib", "down", "--host", "H2")
        self.up("H2")
        self.assertNotEqual(self.shown("H2")["queue_pair"], before)
        self.ping("H1", HOSTS["H2"][0])

    def test_multicast(self):
        for host in HOSTS:
            self.up(host)
        self.expect_multicast("H1", "H2", 1000)

    def test_multicast_in_connected_mode_goes_by_datagrams(self):
        """The kernel cuts what is longer than they are. One of the two has only them."""
        self.up("H1", *CONNECTED)
        self.up("H2")
        for speaker, listener in (("H1", "H2"), ("H2", "H1")):
            self.expect_multicast(speaker, listener, 5000)
        self.assertEqual(self.shown("H1")["counters"]["too_long"], 0)
        self.assertEqual(self.shown("H1")["counters"]["connected_sent"], 0)

    @unittest.skipUnless(shutil.which("iperf3"), "iperf3 is not installed")
    def test_tcp_and_udp(self):
        for host in HOSTS:
            self.up(host)
        self.expect_streams("10M", "10M")

    def expect_streams(self, there, back):
        """TCP and UDP in both directions. Each has a server of its own: iperf3's is busy for a while after a test."""
        for port, options in enumerate((("-n", there), ("-n", back, "-R"), *UDP), 5201):
            server = self.start_on("H2", "iperf3", "--server", "--one-off", "--port", str(port))
            wait_until(lambda: str(port) in self.on("H2", "ss", "-ltn"), SECONDS_MAX, "iperf3")
            told = json.loads(self.on("H1", "iperf3", "--json", "--port", str(port), "-c", HOSTS["H2"][0], *options))
            self.assertGreater(told["end"]["sum" if "-u" in options else "sum_received"]["bytes"], 1_000_000)
            self.assertEqual(server.wait(SECONDS_MAX), 0)

    def test_connected_mode(self):
        for host in HOSTS:
            self.up(host, *CONNECTED)
        self.assertEqual(json.loads(self.on("H1", "ip", "-json", "link", "show", "ib0"))[0]["mtu"], CONNECTED_MTU)
        for here, there in (("H1", "H2"), ("H2", "H1")):
            ipv4, ipv6 = HOSTS[there]
            self.ping(here, ipv4, "-s", str(CONNECTED_MTU - 28), "-M", "do")
            self.ping(here, ipv6, "-s", str(CONNECTED_MTU - 48), "-M", "do")
        shown = self.shown("H1")
        self.assertEqual([(one["address"], one["state"], one["mtu"]) for one in shown["connections"]],
                         [(self.shown("H2")["address"], "connected", CONNECTED_MTU)])
        self.assertGreater(shown["counters"]["connected_sent"], 0)
        self.assertGreater(shown["counters"]["connected_received"], 0)
        self.expect_streams("60M", "60M")
        self.bed.verbatim("ipoib", "down", "--host", "H2")
        self.up("H2", *CONNECTED)
        self.ping("H1", HOSTS["H2"][0], "-s", str(CONNECTED_MTU - 28), "-M", "do")
        self.assertIn(f"connection to {self.shown('H2')['address']}: connected", self.bed.verbatim("ipoib", "show", "--host", "H1"))

    def test_peer_without_connected_mode_is_sent_datagrams(self):
        self.up("H1", *CONNECTED)
        self.up("H2")
        for address, header in zip(HOSTS["H2"], (28, 48)):
            said = self.on("H1", "ping", "-c", "3", "-i", "0.2", "-s", str(MTU + 1 - header), "-M", "do", address, fails=True)
            self.assertRegex(said, f"mtu ?[=:] ?{MTU}")
            self.ping("H1", address, "-s", str(MTU - header), "-M", "do")
            self.ping("H1", address, "-s", "20000")  # The kernel knows the length by now, and cuts.
        self.expect_streams("10M", "10M")
        self.assertEqual(self.shown("H1")["counters"]["connected_sent"], 0)

    @unittest.skipUnless(shutil.which("tshark"), "tshark is not installed")
    def test_tshark_decodes_both_modes(self):
        path = f"{self.bed.folder}/ipoib.pcapng"
        for mode in ((), CONNECTED):
            for host in HOSTS:
                self.up(host, *mode)
            pings = ";".join(f"ping -c 3 -i 0.2 -W 20 -s 5000 {address}" for address in HOSTS["H2"])
            self.bed.verbatim("capture", "-w", path, "--host", "H1", "--", *self.command_on("H1", "sh", "-c", pings))
            for host in HOSTS:
                self.bed.verbatim("ipoib", "down", "--host", host)
            seen = {what: subprocess.run(["tshark", "-r", path, "-Y", what], check=True, capture_output=True).stdout
                    for what in ("arp", "icmp", "icmpv6.nd.na.target_address", "infiniband.bth.opcode < 0x60", "_ws.malformed")}
            self.assertEqual([what for what, lines in seen.items() if not lines],
                             ["_ws.malformed"] if mode else ["infiniband.bth.opcode < 0x60", "_ws.malformed"])

    def test_subnet_manager_is_killed_and_another_begins(self):
        """What runs goes on without one. The other one knows no group: all are joined again."""
        for host in HOSTS:
            self.up(host)
        stream = self.start_on("H1", "ping", "-i", "0.05", HOSTS["H2"][0])
        listener = self.listen("H2", *GROUPS[0], 1000)
        self.manager.kill()
        self.manager.wait()
        self.ping("H2", HOSTS["H1"][0])
        _, log = self.bed.start_manager("H2")
        wait_for_text(log, f"New mcast group created\", MGID:{GROUPS[0][1]}")
        self.expect_heard("H1", listener, GROUPS[0][0], 1000)
        for speaker, other in (("H1", "H2"), ("H2", "H1")):
            self.expect_multicast(speaker, other, 1000)
            self.ping(speaker, HOSTS[other][1])
        stream.send_signal(signal.SIGINT)
        self.assertEqual(stream.wait(SECONDS_MAX), 0)

    def test_wrong_set_ups_say_what_to_do(self):
        refusal = self.refusal
        place = str(self.places["H1"].pid)
        self.assertIn("--host", refusal("up", "--node", "a"))
        self.assertIn("iWARP", refusal("up", "--node", "a", "--protocol", "iwarp"))
        self.assertIn("fabric", refusal("up", "--host", "H9", "--netns", place))
        self.assertIn("P_Key", refusal("up", "--host", "H1", "--netns", place, "--pkey", "0"))
        self.assertIn("mode", refusal("up", "--host", "H1", "--netns", place, "--mode", "fast"))
        self.assertIn("no process", refusal("up", "--host", "H1", "--netns", "999999999"))
        self.assertIn("no interface ib0 of host H1", refusal("down", "--host", "H1"))
        self.assertIn("modprobe tun", refusal("up", "--host", "H1", prefix=WITHOUT_TUN))
        self.assertIn("unshare -rn", refusal("up", "--host", "H1", prefix=WITHOUT_RIGHT))
        self.up("H1")
        self.assertIn("ib0", refusal("up", "--host", "H1", "--netns", place))


LISTENER = """
import socket, struct, sys
group, length = sys.argv[1], int(sys.argv[2])
index = socket.if_nametoindex("ib0")
if ":" in group:
    taker = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    options = socket.IPPROTO_IPV6, socket.IPV6_JOIN_GROUP, socket.inet_pton(socket.AF_INET6, group) + struct.pack("=I", index)
else:
    taker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    options = socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, socket.inet_aton(group) + struct.pack("=4xI", index)
taker.bind(("", 4000))
taker.setsockopt(*options)
assert taker.recv(65536) == b"x" * length
"""
SPEAKER = """
import socket, struct, sys, time
group, length = sys.argv[1], int(sys.argv[2])
index = socket.if_nametoindex("ib0")
if ":" in group:
    giver = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    giver.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, index)
else:
    giver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    giver.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, struct.pack("=8xI", index))
while True:
    giver.sendto(b"x" * length, (group, 4000))
    time.sleep(0.1)
"""


class namespaces:  # pylint: disable=invalid-name
    """A process in a user and network namespace of its own."""

    def __enter__(self):
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *NAMESPACES, "sh", "-c",
                                         "ip link set lo up; echo; exec sleep infinity"], stdout=subprocess.PIPE)
        self.process.stdout.readline()
        return self.process

    def __exit__(self, *error):
        FabricBed.end(self.process)


def main():
    global OPTIONS
    OPTIONS = option_parser(__doc__).parse_args()
    can_make = subprocess.run([*NAMESPACES, "sh", "-c", "ip tuntap add t0 mode tun"], check=False, capture_output=True)
    if not are_installed("opensm", "ip", "ping", "nsenter") or can_make.returncode != 0:
        print("needs opensm, ip, ping, and interfaces in a user's network namespace")
        return SKIPPED
    run_tests()
    return 0


if __name__ == "__main__":
    sys.exit(main())
