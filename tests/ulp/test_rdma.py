#!/usr/bin/env python3
"""The driver of upper-layer protocols (src/ulp/rdma) on one kind of link: thousands of connections in one thread, killed
programs, faults of the link, and Debian's rping as the peer."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
for neighbour in ("programs", "fabric"):
    sys.path.insert(0, os.path.join(FOLDER, "..", neighbour))

from fabricbed import CHAIN, FabricBed, HostsTestbed, run_tests  # noqa: E402
from testbed import SKIPPED, Failure, Testbed, are_installed, option_parser, wait_until  # noqa: E402

LINKS = {  # Variables of both nodes' programs; the fabric has its own bed.
    "direct": {},
    "wire": {"VERBATIM_PATH": "wire"},
    "iwarp": {"VERBATIM_PATH": "wire", "VERBATIM_PROTOCOL": "iwarp"},
    "fabric": {"VERBATIM_PATH": "wire"},
}
SECONDS_MAX = 100
MANY = 2000
OWN_DESCRIPTORS_MAX = 6
BYTES_EACH_MAX = 32 << 10
PORT = 7471
# Links of InfiniBand send no packet twice.
FAULTS = {"fabric": "loss=1%,corrupt=1%,seed=7"}
FAULTS_ELSEWHERE = "loss=1%,duplicate=1%,seed=7"

BED = None  # Set in main.
LINK = ""


class Rdma(unittest.TestCase):
    def setUp(self):
        self.set_variables()
        self.programs = []
        self.addCleanup(self.end_programs)

    def end_programs(self):
        for program in self.programs:
            program.kill()

    @staticmethod
    def set_variables(**more):
        for node in ("a", "b"):
            BED.set_variables(node, **LINKS[LINK], **more)

    def start(self, node, *argv):
        """`argv`: a program of Debian's, or of this folder."""
        folder = "" if argv[0] == "rping" else f"{BED.build}/bin/"
        program = BED.start(node, [folder + argv[0], *(str(word) for word in argv[1:])])
        self.programs.append(program)
        return program

    @staticmethod
    def wait_for_port(server):
        def listens():
            if server.ended():
                raise Failure(f"{server.name} ended with status {server.process.returncode}: {server.output()}")
            return any(bound["port"] == PORT for bound in BED.bound_ports("a"))

        wait_until(listens, SECONDS_MAX, f"{server.name} to listen")

    def start_echo(self):
        server = self.start("a", "rdma_echo_daemon", "--name", LINK, "--address", BED.address("a"), "--port", PORT)
        self.wait_for_port(server)
        return server

    @staticmethod
    def status_of_echo():
        """What `verbatim status` shows of it; nothing if it does not run."""
        done = subprocess.run([f"{BED.build}/bin/verbatim", "status", "--json"], check=True, env=BED.environment(),
                              capture_output=True, text=True, timeout=SECONDS_MAX)
        return next((one for one in json.loads(done.stdout) if one.get("service") == "rdma-echo"), {})

    def load(self, connections, rounds, size, *more):
        return self.start("b", "rdma_load", BED.address("a"), PORT, connections, rounds, size, *more)

    @staticmethod
    def report_of(load):
        load.wait(SECONDS_MAX)
        return json.loads(load.output().splitlines()[-1])

    def wait_until_connected(self, load):
        def connected():
            if load.ended():
                raise Failure(f"rdma_load ended with status {load.process.returncode}: {load.output()}")
            return "connected" in load.output()

        wait_until(connected, SECONDS_MAX, "connections")

    def check_whole(self, report, connections, rounds):
        self.assertEqual((report["established"], report["done"], report["failed"], report["ended"], report["wrong"]),
                         (connections, connections, 0, 0, 0), report)
        self.assertEqual(report["messages"], connections * rounds, report)
        self.assertEqual((report["lent_at_end"], report["ended_at_end"]), (0, connections), report)

    def test_thousands_of_connections_in_one_thread(self):
        server = self.start_echo()
        before = resident_bytes(server.process.pid)
        load = self.load(MANY, 2, 256)
        self.wait_until_connected(load)
        each = (resident_bytes(server.process.pid) - before) / MANY
        report = self.report_of(load)
        self.check_whole(report, MANY, 2)
        print(f"{LINK}: {each:.0f} bytes a connection at the server, {report['bytes_each']} at the client; descriptors: "
              f"{report['own_descriptors']} and {report['more_descriptors']} while {MANY} are connected", flush=True)
        self.assertLessEqual(report["own_descriptors"], OWN_DESCRIPTORS_MAX)
        if LINK != "iwarp":  # There each connection is a TCP connection, which the library holds.
            self.assertLess(report["more_descriptors"], 16)
            self.assertLess(max(each, report["bytes_each"]), BYTES_EACH_MAX)

    def test_a_killed_client_is_noticed_and_others_go_on(self):
        server = self.start_echo()
        survivor = self.load(8, 1, 4000, "hold")
        victims = [self.load(8, 1, 4000, "hold") for _ in range(3)]
        for load in (survivor, *victims):
            self.wait_until_connected(load)
        for victim in victims:
            victim.process.kill()
            victim.process.wait()
        wait_until(lambda: self.status_of_echo().get("connections") == 8, SECONDS_MAX, "the killed ones' connections to end")
        self.assertFalse(survivor.ended(), survivor.output())
        os.kill(survivor.process.pid, signal.SIGTERM)
        report = self.report_of(survivor)
        self.assertEqual((report["ended"], report["wrong"], report["lent_at_end"]), (0, 0, 0), report)
        os.kill(server.process.pid, signal.SIGTERM)
        server.expect_success(SECONDS_MAX)

    def test_a_killed_server_is_noticed(self):
        server = self.start_echo()
        loads = [self.load(8, 1, 4000, "hold") for _ in range(2)]
        for load in loads:
            self.wait_until_connected(load)
        server.process.kill()
        server.process.wait()
        for load in loads:
            report = self.report_of(load)
            self.assertEqual((report["ended"], report["wrong"], report["lent_at_end"]), (8, 0, 0), report)

    def test_content_under_faults_of_the_link(self):
        self.set_variables(VERBATIM_FAULT=FAULTS.get(LINK, FAULTS_ELSEWHERE))
        self.start_echo()
        report = self.report_of(self.load(20, 30, 4000))
        self.check_whole(report, 20, 30)

    def test_rping_against_our_server(self):
        server = self.start("a", "rping_peer", "serve", BED.address("a"), PORT)
        self.wait_for_port(server)
        for size in (64, 65000):
            client = self.start("b", *f"rping -c -a {BED.address('a')} -p {PORT} -v -V -C 100 -S {size}".split())
            client.expect_success(SECONDS_MAX)
            self.assertIn("ping data: rdma-ping-99: ", client.output())
        os.kill(server.process.pid, signal.SIGTERM)
        server.expect_success(SECONDS_MAX)

    def test_our_client_against_rping(self):
        for size in (64, 65000):
            server = self.start("a", *f"rping -s -a {BED.address('a')} -p {PORT} -C 100 -S {size}".split())
            self.wait_for_port(server)
            client = self.start("b", "rping_peer", "ask", BED.address("a"), PORT, 100, size)
            client.expect_success(SECONDS_MAX)
            self.assertIn("right, ", client.output())
            server.wait(SECONDS_MAX)
            wait_until(lambda: not BED.bound_ports("a"), SECONDS_MAX, "rping to be forgotten")


def resident_bytes(process):
    with open(f"/proc/{process}/statm", encoding="ascii") as numbers:
        return int(numbers.read().split()[1]) * os.sysconf("SC_PAGESIZE")


@contextlib.contextmanager
def bed_of(options):
    if options.link != "fabric":
        with Testbed(options) as testbed:
            yield testbed
        return
    with FabricBed(options) as fabric:
        fabric.up(CHAIN)
        fabric.start_manager("H1")
        fabric.wait_until_active("H1", "H2")
        with HostsTestbed(options, fabric, {"a": "H1", "b": "H2"}) as testbed:
            yield testbed


def main():
    global BED, LINK
    parser = option_parser(__doc__)
    parser.add_argument("--link", choices=LINKS, required=True)
    options = parser.parse_args()
    LINK = options.link
    if not are_installed("rping", *(["opensm"] if LINK == "fabric" else [])):
        return SKIPPED
    with bed_of(options) as BED:
        run_tests()
    return 0


if __name__ == "__main__":
    sys.exit(main())
