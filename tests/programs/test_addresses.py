#!/usr/bin/env python3
"""Addresses that interfaces get while nodes live: GIDs at indices that stay, for programs that run and
for those that come, also when the agent has died. And an interface whose MTU changes."""

import ipaddress
import os
import re
import signal
import subprocess
import sys

from testbed import Failure, Testbed, option_parser, wait_until
from namespaces import enter_user_namespace, ip, wait_for_link

SECONDS_MAX = 60
A, B, C, D = "a", "b", "c", "d"  # C and D share the loopback interface: new addresses become C's.
INTERFACES = {A: "veth-a", B: "veth-b", C: "lo"}
FIRST = {A: "10.78.0.1", B: "10.78.1.1"}
NEW = {A: "10.78.0.9", B: "10.78.1.9", C: "10.78.2.9"}
ANOTHER = "10.78.0.10"
# The kernel searches for duplicates of these before they may be used.
NEW_IPV6 = {A: "2001:db8::9", B: "2001:db8::19"}
LATER_IPV6 = {A: "2001:db8::29", B: "2001:db8::39"}
GIDS = "/sys/class/infiniband/verbatim0/ports/1/gids"
NO_GID = ":".join(["0000"] * 8)


def gid(address):
    """Returns the GID as /sys shows it."""
    ip_address = ipaddress.ip_address(address)
    if ip_address.version == 4:
        ip_address = ipaddress.ip_address(f"::ffff:{address}")
    return ip_address.exploded


def shown(kind, interface):
    """Returns the addresses of a kind that `ip address show` prints."""
    return subprocess.run(["ip", "-6", "-o", "address", "show", "dev", interface, kind],
                          check=True, capture_output=True, text=True).stdout


def has_ipv6():
    try:
        with open(f"/proc/sys/net/ipv6/conf/{INTERFACES[A]}/disable_ipv6", encoding="ascii") as file:
            return file.read().strip() == "0"
    except OSError:
        return False


class Watcher:
    """A program that has opened the device before the changes."""

    def __init__(self, testbed, node):
        self._lab, self._node = testbed, node
        self._program = testbed.start(node, ["stdbuf", "-oL", "ibv_asyncwatch"])
        self._changes = 0
        wait_until(lambda: "async event FD" in self._program.output(), SECONDS_MAX, "ibv_asyncwatch")

    def expect_change(self, command, gids):
        """Checks that the command changes the GID table once, to these entries."""
        ip(command)
        self._changes += 1
        wait_until(lambda: len(self._heard()) >= self._changes, SECONDS_MAX, f"event of: {command}")
        self.expect_nothing_else()
        for index, content in gids.items():
            self._lab.expect_output(self._node, ["cat", f"{GIDS}/{index}"], content)
        print(f"passed: {command}", flush=True)

    def expect_nothing_else(self):
        if self._heard() != ["IBV_EVENT_GID_CHANGE"] * self._changes:
            raise Failure(f"heard {self._heard()}, expected {self._changes} changes of the GID table")

    def _heard(self):
        return re.findall(r"event_type (\w+)", self._program.output())


def change(action, node, address):
    prefix = 32 if node == C else 64 if ":" in address else 24
    return f"ip address {action} {address}/{prefix} dev {INTERFACES[node]}"


def pingpong(testbed, index_of_a, index_of_b):
    port = testbed.free_port()
    argv = ["ibv_rc_pingpong", "-p", str(port), "-c", "-g"]
    server = testbed.start_server(A, [*argv, str(index_of_a)], port)
    testbed.start(B, [*argv, str(index_of_b), FIRST[A]]).expect_success(SECONDS_MAX)
    server.expect_success(SECONDS_MAX)
    print(f"passed: ibv_rc_pingpong with GID indices {index_of_a} and {index_of_b}", flush=True)


def rping_server(testbed, address="0.0.0.0"):
    port = testbed.free_port()
    server = testbed.start(A, ["rping", "-s", "-C", "10", "-p", str(port), "-a", address])
    wait_until(lambda: any(bound["listens"] for bound in testbed.bound_ports(A)), SECONDS_MAX, "rping")
    return server, port


def rping(testbed, server, port, address):
    """Runs a client of a server that listened before the address existed."""
    client = testbed.start(B, ["rping", "-c", "-C", "10", "-p", str(port), "-a", address])
    client.expect_success(SECONDS_MAX)
    server.expect_success(SECONDS_MAX)
    print(f"passed: rping to {address}", flush=True)


def kill_agent(testbed, node):
    old = testbed.node_status(node)["agent_pid"]
    os.kill(old, signal.SIGKILL)

    def next_one():
        status = testbed.node_status(node)
        return status and status.get("agent_pid") not in (None, old) and status["programs"]

    wait_until(next_one, SECONDS_MAX, "the next agent")


def follow_addresses(testbed):
    watchers = {node: Watcher(testbed, node) for node in (A, B, C, D)}
    a = watchers[A]
    veteran = rping_server(testbed)
    for node, address in NEW.items():
        watchers[node].expect_change(change("add", node, address), {2: gid(address)})
    testbed.expect_output(A, ["ibv_devinfo", "-v"], f"::ffff:{NEW[A]}")
    pingpong(testbed, 2, 2)
    rping(testbed, *veteran, NEW[A])

    a.expect_change(change("del", A, NEW[A]), {2: NO_GID})
    a.expect_change(change("add", A, ANOTHER), {2: NO_GID, 3: gid(ANOTHER)})
    a.expect_change(change("add", A, NEW[A]), {2: gid(NEW[A]), 3: gid(ANOTHER)})

    a.expect_change(change("del", A, NEW[A]), {2: NO_GID})
    kill_agent(testbed, A)
    a.expect_change(change("add", A, NEW[A]), {2: gid(NEW[A]), 3: gid(ANOTHER)})
    pingpong(testbed, 2, 2)
    rping(testbed, *rping_server(testbed), ANOTHER)
    if has_ipv6():
        a.expect_change(change("add", A, NEW_IPV6[A]), {4: gid(NEW_IPV6[A])})
        watchers[B].expect_change(change("add", B, NEW_IPV6[B]), {3: gid(NEW_IPV6[B])})
        pingpong(testbed, 4, 3)
    for watcher in watchers.values():
        watcher.expect_nothing_else()


def follow_over_iwarp(testbed):
    """Its one GID stays; a server that listens at all addresses does so at new ones, too."""
    watchers = Watcher(testbed, A), Watcher(testbed, B)
    for server, port in (rping_server(testbed), rping_server(testbed)):
        ip(change("add", A, NEW[A]))
        wait_until(lambda: NEW[A] in testbed.node_status(A)["addresses"], SECONDS_MAX, "the agent to see the address")
        rping(testbed, server, port, NEW[A])
        ip(change("del", A, NEW[A]))
    if has_ipv6():
        veteran = rping_server(testbed, "::")
        for node, address in LATER_IPV6.items():
            ip(change("add", node, address))
            wait_until(lambda: address in testbed.node_status(node)["addresses"], SECONDS_MAX,
                       "the agent to see the address")
        wait_until(lambda: not any(shown("tentative", INTERFACES[node]) for node in LATER_IPV6),
                   SECONDS_MAX, "the kernel to find no duplicates")
        rping(testbed, *veteran, LATER_IPV6[A])
    for watcher in watchers:
        watcher.expect_nothing_else()


def follow_mtu(testbed):
    watcher = Watcher(testbed, A)
    for mtu_bytes, active in ((1500, "1024 (3)"), (9000, "4096 (5)"), (2200, "2048 (4)")):
        ip(f"ip link set {INTERFACES[A]} mtu {mtu_bytes}")
        wait_until(lambda: testbed.node_status(A)["interface_mtu_bytes"] == mtu_bytes, SECONDS_MAX,
                   "the agent to see the MTU")
        testbed.expect_output(A, ["ibv_devinfo"], f"active_mtu:\t\t{active}")
        print(f"passed: MTU {mtu_bytes}", flush=True)
    watcher.expect_nothing_else()


def main():
    options = option_parser(__doc__).parse_args()
    enter_user_namespace()
    ip("ip link add veth-a type veth peer name veth-b")
    for node, address in FIRST.items():
        # No link-local addresses, because the kernel adds and removes them at any time.
        ip(f"ip link set {INTERFACES[node]} addrgenmode none")
        ip(f"ip address add {address}/24 dev {INTERFACES[node]}")
        ip(f"ip link set {INTERFACES[node]} up")
    for node in FIRST:
        wait_for_link(INTERFACES[node])
    with Testbed(options) as testbed:
        for node, address in {**FIRST, C: "127.0.0.2", D: "127.0.0.3"}.items():
            testbed.set_addresses(node, address)
        follow_addresses(testbed)
        follow_mtu(testbed)
    ip(change("del", A, NEW[A]))
    with Testbed(options) as testbed:
        for node, address in FIRST.items():
            testbed.set_addresses(node, address)
            testbed.set_variables(node, VERBATIM_PROTOCOL="iwarp")
        follow_over_iwarp(testbed)


if __name__ == "__main__":
    sys.exit(main())
