#!/usr/bin/env python3
"""RDMA netlink, by which iproute2's `rdma` asks about devices, links, resources and statistics: over RoCE and iWARP."""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import unittest

from testbed import SKIPPED, Testbed, are_installed, option_parser, wait_until

LAB = None  # Set in main.
PROTOCOLS = {"a": ("roce", "ca"), "b": ("iw", "rnic")}  # By node: its protocol and kind.
NETLINK_RDMA, NLM_F_REQUEST, NLM_F_DUMP, GET_DEVICE = 20, 1, 0x300, 5 << 10 | 1


def finish(node, *argv):
    """Runs a program on the node to its end, and returns its exit status and what it prints."""
    program = LAB.start(node, argv)
    return program.wait(60), program.output()


def rdma(node, *words):
    """What `rdma -j` prints, decoded."""
    status, output = finish(node, "rdma", "-j", *words)
    if status != 0:
        raise AssertionError(f"rdma {words}: {output}")
    return json.loads(output or "[]")


@contextlib.contextmanager
def busy_node(node, count):
    """A program with so many queue pairs runs on the node."""
    program = LAB.start(node, [f"{LAB.build}/bin/queue_pairs", str(count)], stdin=subprocess.PIPE)
    while not program.output().endswith("ready\n"):
        if program.ended():
            raise AssertionError(program.output())
    yield program
    program.process.stdin.close()
    program.expect_success(30)


class Rdma(unittest.TestCase):
    def test_the_device(self):
        for node, (protocol, kind) in PROTOCOLS.items():
            with self.subTest(protocol):
                (device,) = rdma(node, "dev", "show", "-d")
                self.assertEqual((device["ifindex"], device["ifname"]), (0, "verbatim0"))
                self.assertEqual(device["node_type"], kind)
                if "protocol" in device:  # Not in the JSON of iproute2 6.1.
                    self.assertEqual(device["protocol"], protocol)
                _, shown = finish(node, "ibv_devinfo", "-v")
                guid = re.search(r"node_guid:\s+(\S+)", shown).group(1)
                self.assertEqual(device["node_guid"], guid)
                flags = int(re.search(r"device_cap_flags:\s+(0x\w+)", shown).group(1), 16)
                self.assertEqual(len(device["caps"]), flags.bit_count(), device["caps"])
                self.assertEqual("XRC" in device["caps"], bool(flags & 1 << 20))

    def test_the_link(self):
        for node, (protocol, _) in PROTOCOLS.items():
            with self.subTest(protocol):
                (link,) = rdma(node, "link", "show")
                self.assertEqual(link["ifname"], "verbatim0")
                self.assertEqual((link["port"], link["state"], link["physical_state"]), (1, "ACTIVE", "LINK_UP"))
                self.assertEqual((link["netdev"], link["netdev_index"]), ("lo", socket.if_nametoindex("lo")))
                self.assertEqual(rdma(node, "link", "show", "verbatim0/1"), [link])

    def test_the_system(self):
        status, output = finish("a", "rdma", "system")
        self.assertEqual((status, output.split()[:2]), (0, ["netns", "exclusive"]), output)

    def test_queue_pairs_are_those_of_programs(self):
        with busy_node("a", 4) as program:
            pairs = rdma("a", "res", "show", "qp")
            self.assertEqual(len(pairs), 4)
            self.assertEqual({pair["lqpn"] for pair in pairs}, {pair["rqpn"] for pair in pairs})
            for pair in pairs:
                self.assertEqual((pair["type"], pair["state"], pair["port"]), ("RC", "RTS", 1))
                self.assertEqual((pair["pid"], pair["comm"]), (program.process.pid, "queue_pairs"))
            one = rdma("a", "res", "show", "qp", "link", "verbatim0/1", "lqpn", str(pairs[0]["lqpn"]))
            self.assertEqual(one, pairs[:1])
            (summary,) = rdma("a", "res", "show")
            self.assertEqual((summary["qp"], summary["mr"], summary["ctx"]), (4, 1, 1))
            (region,) = rdma("a", "res", "show", "mr")
            self.assertEqual((region["mrlen"], region["pid"]), (128, program.process.pid))
        self.assertEqual(rdma("a", "res", "show", "qp"), [])

    def test_identifiers_of_rdma_cm(self):
        server = LAB.start("a", ["rping", "-s", "-P", "-p", "7199", "-a", LAB.address("a")])
        wait_until(lambda: LAB.bound_ports("a"), 20, "rping to listen")
        (listener,) = rdma("a", "res", "show", "cm_id")
        self.assertEqual((listener["state"], listener["ps"]), ("LISTEN", "TCP"))
        self.assertEqual(listener["src-addr"], f"{LAB.address('a')}:7199")
        server.kill()

    def test_statistics_are_the_ports_counters(self):
        (before,) = rdma("a", "statistic", "show", "link", "verbatim0/1")
        self.assertLessEqual({"sent_pkts", "rcvd_pkts"}, set(before))
        with busy_node("a", 2):
            (during,) = rdma("a", "statistic", "show", "link", "verbatim0/1")
            files = ("sh", "-c", "cat /sys/class/infiniband/verbatim0/ports/1/counters/*_packets")
            # The agent writes them once a second at most.
            wait_until(lambda: finish("a", *files)[1] == f"{during['rcvd_pkts']}\n{during['sent_pkts']}\n", 20,
                       "the files to say the same")

    def test_changes_are_refused(self):
        status, output = finish("a", "rdma", "dev", "set", "verbatim0", "name", "other")
        self.assertNotEqual(status, 0)
        self.assertIn("not supported" if os.geteuid() == 0 else "not permitted", output)

    def test_verbs_have_the_index_that_netlink_knows(self):
        script = ("import ctypes; v = ctypes.CDLL('libibverbs.so.1'); v.ibv_get_device_list.restype = ctypes.c_void_p\n"
                  "first = ctypes.cast(v.ibv_get_device_list(None), ctypes.POINTER(ctypes.c_void_p))[0]\n"
                  "print(v.ibv_get_device_index(ctypes.c_void_p(first)))")
        ask = ("/usr/bin/python3", "-c", script)
        self.assertEqual(finish("a", *ask), (0, "0\n"))
        self.assertEqual(finish("a", "env", "-u", "VERBATIM_VIEW", *ask), (0, "-1\n"))

    def test_without_an_agent_there_is_no_netlink(self):
        library = f"{LAB.build}/lib/libverbatim-view.so"
        environment = LAB.environment() | {"LD_PRELOAD": library, "VERBATIM_VIEW": f"{LAB.folder}/none.view"}
        done = subprocess.run(["rdma", "link"], env=environment, capture_output=True, text=True, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("NETLINK_RDMA", done.stderr)


class Sockets(unittest.TestCase):
    """Calls of programs that speak netlink themselves. Each runs in a Python of its own, on the node."""

    def python(self, script):
        words = ("import os, socket, struct", f"FAMILY, RDMA = socket.AF_NETLINK, {NETLINK_RDMA}",
                 "s = socket.socket(FAMILY, socket.SOCK_RAW | socket.SOCK_CLOEXEC, RDMA)",
                 f"ask = struct.pack('=IHHII', 16, {GET_DEVICE}, {NLM_F_REQUEST | NLM_F_DUMP}, 5, 0)", script)
        status, output = finish("a", "/usr/bin/python3", "-c", "\n".join(words))
        self.assertEqual(status, 0, output)
        return output

    def test_peek_tells_the_length_and_leaves_the_datagram(self):
        self.python("s.bind((0, 0)); s.send(ask)\n"
                    "_, _, flags, _ = s.recvmsg(1, 0, socket.MSG_PEEK | socket.MSG_TRUNC)\n"
                    "assert flags & socket.MSG_TRUNC\n"
                    "whole = s.recv(4096); assert struct.unpack('=I', whole[:4])[0] == len(whole), whole\n"
                    "assert struct.unpack('=H', s.recv(4096)[4:6])[0] == 3")

    def test_addresses_are_netlinks(self):
        self.python("s.bind((0, 0)); assert s.getsockname() == (os.getpid(), 0), s.getsockname()\n"
                    "s.sendto(ask, (0, 0)); data, _, _, source = s.recvmsg(4096)\n"
                    "assert source == (0, 0), source\n"
                    "assert struct.unpack('=I', data[12:16])[0] == os.getpid()\n"
                    "data, source = s.recvfrom(4096); assert source == (0, 0), source")

    def test_ports_are_chosen_taken_and_unique(self):
        self.python("s.bind((4711, 0)); assert s.getsockname() == (4711, 0)\n"
                    "other = socket.socket(FAMILY, socket.SOCK_DGRAM, RDMA)\n"
                    "try:\n  other.bind((4711, 0)); raise SystemExit('twice')\n"
                    "except OSError as error: assert error.errno == 98, error\n"
                    "other.bind((0, 0)); third = socket.socket(FAMILY, socket.SOCK_RAW, RDMA); third.bind((0, 0))\n"
                    "assert other.getsockname() != third.getsockname()")

    def test_options_and_duplicates(self):
        self.python("s.setsockopt(270, 10, 1); s.setsockopt(270, 11, 1)\n"
                    "copy = s.dup(); s.close(); copy.send(ask); assert copy.recv(4096)")

    def test_other_sockets_stay_as_they_are(self):
        self.python("route = socket.socket(FAMILY, socket.SOCK_RAW, 0); route.bind((0, 0))\n"
                    "assert route.getsockname()[0] != 0\n"
                    "a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET); a.send(b'x')\n"
                    "assert b.recvmsg(4)[0] == b'x' and b.getsockname() == ''")

    def test_the_agent_outlives_nonsense(self):
        self.python("for size in range(64):\n  s.send(b'\\xff' * size + ask[:size % 17] or b'x')\n"
                    "s.send(ask); assert s.recv(4096)")

    def test_many_at_once(self):
        self.python("many = [socket.socket(FAMILY, socket.SOCK_RAW, RDMA) for _ in range(40)]\n"
                    "for one in many: one.send(ask)\n"
                    "for one in many: assert one.recv(4096)")


class Diagnostics(unittest.TestCase):
    """What ibstat and ibstatus say of a RoCE card's port (as mlx5's in public reports), they say of a RoCE node's."""

    PORT = {"State": "Active", "Physical state": "LinkUp", "Rate": "100", "Base lid": "0", "LMC": "0", "SM lid": "0",
            "Capability mask": "0x00010000", "Link layer": "Ethernet"}

    def setUp(self):
        if not are_installed("ibstat", "ibstatus"):
            self.skipTest("no infiniband-diags")

    @staticmethod
    def fields(output):
        return {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in output.splitlines())}

    def test_ibstat(self):
        status, output = finish("a", "ibstat")
        self.assertEqual(status, 0, output)
        shown = self.fields(output)
        self.assertLessEqual(self.PORT.items(), shown.items())
        _, guid = finish("a", "cat", "/sys/class/infiniband/verbatim0/node_guid")
        self.assertEqual(shown["Node GUID"], "0x" + guid.strip().replace(":", ""))
        _, gid = finish("a", "cat", "/sys/class/infiniband/verbatim0/ports/1/gids/0")
        self.assertEqual(shown["Port GUID"], "0x" + gid.strip().replace(":", "")[16:])
        self.assertEqual(finish("a", "ibstat", "-l"), (0, "verbatim0\n"))

    def test_ibstatus(self):
        status, output = finish("a", "ibstatus")
        self.assertEqual(status, 0, output)
        shown = self.fields(output)
        self.assertEqual((shown["state"], shown["phys state"]), ("4: ACTIVE", "5: LinkUp"))
        self.assertEqual((shown["rate"], shown["link_layer"]), ("100 Gb/sec (4X EDR)", "Ethernet"))

    def test_an_rnic_is_no_infiniband_device(self):
        self.assertNotIn("verbatim0", finish("b", "ibstat", "-l")[1])

    def test_its_port_takes_no_management_datagrams(self):
        status, output = finish("a", "smpquery", "-D", "nodeinfo", "0")
        self.assertNotEqual(status, 0, output)
        self.assertIn("--host", output)


def main():
    global LAB
    os.environ["PATH"] += ":/usr/sbin:/sbin"  # Of Debian's diagnostic programs.
    options = option_parser(__doc__).parse_args()
    if not are_installed("rdma"):
        return SKIPPED
    with Testbed(options) as LAB:
        LAB.set_variables("b", VERBATIM_PROTOCOL="iwarp")
        result = unittest.main(argv=sys.argv[:1], exit=False, verbosity=2).result
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
