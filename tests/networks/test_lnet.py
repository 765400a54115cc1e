#!/usr/bin/env python3
"""`verbatim lnet`: nodes of Lustre's network ping and test each other, by a router, too."""

import json
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))

from testbed import Failure, Testbed, option_parser, wait_until  # noqa: E402

SECONDS = 60


class Bench:
    def __init__(self, testbed, protocol):
        self.testbed = testbed
        self.protocol = protocol
        self.up_nodes = set()

    def run(self, *words):
        environment = self.testbed.environment() | {"VERBATIM_PROTOCOL": self.protocol}
        return subprocess.run([f"{self.testbed.build}/bin/verbatim", "lnet", *words], env=environment, check=False,
                              capture_output=True, text=True, timeout=SECONDS)

    def lnet(self, *words):
        done = self.run(*words)
        if done.returncode != 0:
            raise Failure(f"verbatim lnet {' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def expect_refusal(self, status, words, *command):
        done = self.run(*command)
        if done.returncode != status or words not in done.stderr:
            raise Failure(f"verbatim lnet {' '.join(command)}: status {done.returncode}, expected {status} and "
                          f"'{words}' in: {done.stderr}")

    def up(self, node, *words, nets=("o2ib",)):
        """An iWARP device does not tell its node's address."""
        address = self.testbed.address(node)
        if self.protocol == "iwarp":
            nets = [f"{net}={address}" for net in nets]
        self.lnet("up", "--node", node, "--address", address, *(word for net in nets for word in ("--net", net)),
                  *words)
        self.up_nodes.add(node)

    def down(self, node):
        self.lnet("down", "--node", node)
        self.up_nodes.discard(node)

    def show(self, node):
        return json.loads(self.lnet("show", "--node", node, "--json"))

    def nid(self, node, net="o2ib"):
        return f"{self.testbed.address(node)}@{net}"

    def expect_ping(self, node, nid, *nids):
        shown = self.lnet("ping", "--node", node, nid)
        missing = [one for one in nids if f"  {one} up" not in shown]
        if missing:
            raise Failure(f"the ping of {nid} does not name {missing}: {shown}")

    def expect_test(self, node, nid, requests, *words):
        shown = self.lnet("test", "--node", node, "--requests", str(requests), *words, nid)
        if not shown.startswith(f"{requests} requests, 0 errors"):
            raise Failure(f"the test of {nid} has failed: {shown}")
        print(f"  {' '.join(words) or 'pings'}: {shown.strip()}", flush=True)


def two_nodes(bench):
    bench.up("a")
    bench.up("b")
    bench.expect_ping("a", bench.nid("b"), bench.nid("b"))
    bench.expect_ping("b", bench.nid("a"), bench.nid("a"))
    bench.expect_test("a", bench.nid("b"), 200)
    connects = [one["port"] for node in ("a", "b") for one in bench.testbed.bound_ports(node) if not one["listens"]]
    if os.geteuid() == 0 and bench.protocol == "roce" and not all(512 <= port < 1024 for port in connects):
        raise Failure(f"connections from ports that are for root: {connects}")
    for kind in ("--read", "--write"):
        bench.expect_test("a", bench.nid("b"), 100, kind)
        bench.expect_test("b", bench.nid("a"), 20, kind, "--bytes", "4096", "--concurrency", "1")
    shown = bench.show("b")
    if shown["self_test"]["reads"] != 100 or shown["self_test"]["writes"] != 100 or shown["incidents"]:
        raise Failure(f"show: {shown}")
    if bench.nid("a") not in bench.lnet("show", "--node", "b"):
        raise Failure("show does not name the peer")


def a_killed_node_is_known_again(bench):
    os.kill(bench.show("b")["process"], signal.SIGKILL)
    wait_until(lambda: not bench.show("a")["peers"][0]["connected"], SECONDS, "a to notice that b is gone")
    bench.expect_refusal(1, bench.nid("b"), "ping", "--node", "a", bench.nid("b"))
    bench.up("b")
    bench.expect_ping("a", bench.nid("b"), bench.nid("b"))
    bench.expect_ping("b", bench.nid("a"), bench.nid("a"))
    for node in ("a", "b"):
        bench.down(node)


def by_a_router(bench):
    bench.up("a", "--route", f"o2ib1={bench.nid('r')}")
    bench.up("b", "--route", f"o2ib={bench.nid('r', 'o2ib1')}", nets=("o2ib1",))
    bench.up("r", nets=("o2ib", "o2ib1"))
    bench.expect_ping("a", bench.nid("r"), bench.nid("r"), bench.nid("r", "o2ib1"))
    bench.expect_ping("a", bench.nid("b", "o2ib1"), bench.nid("b", "o2ib1"))
    for kind in ("--read", "--write"):
        bench.expect_test("a", bench.nid("b", "o2ib1"), 50, kind)
    shown = bench.show("r")
    if shown["forwarded"] < 200 or shown["dropped"]:
        raise Failure(f"the router's show: {shown}")
    for node in ("a", "b", "r"):
        bench.down(node)


def wrong_words(bench):
    address = bench.testbed.address("a")
    at = ("--node", "a", "--address", address)
    bench.expect_refusal(2, "a network is o2ib", "up", *at, "--net", "tcp")
    bench.expect_refusal(2, "is said twice", "up", *at, "--net", f"o2ib={address}", "--net", f"o2ib0={address}")
    bench.expect_refusal(2, "a route is NET=GATEWAY", "up", *at, "--route", "o2ib1")
    bench.expect_refusal(1, "no LNet node of 'a' runs", "ping", "--node", "a", "10.0.0.1@o2ib")
    bench.up("a")
    bench.expect_refusal(1, "runs", "up", *at)
    bench.expect_refusal(1, "a NID is ADDRESS@o2ib", "ping", "--node", "a", "nobody")
    bench.expect_refusal(1, "no way leads to 10.0.0.1@o2ib5", "ping", "--node", "a", "10.0.0.1@o2ib5")
    bench.expect_refusal(2, "not in range", "test", "--node", "a", "--requests", "0", bench.nid("a"))
    bench.expect_refusal(2, "excludes", "test", "--node", "a", "--read", "--write", bench.nid("a"))
    bench.expect_refusal(1, "a bulk has 4096", "test", "--node", "a", "--read", "--bytes", "5", bench.nid("a"))
    bench.down("a")


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--protocol", default="roce", choices=("roce", "iwarp"))
    options = parser.parse_args()
    with Testbed(options) as testbed:
        bench = Bench(testbed, options.protocol)
        try:
            for part in (two_nodes, a_killed_node_is_known_again, by_a_router, wrong_words):
                part(bench)
                print(f"passed: {part.__name__}", flush=True)
        finally:
            for node in bench.up_nodes:
                bench.run("down", "--node", node)
    return 0


if __name__ == "__main__":
    sys.exit(main())
