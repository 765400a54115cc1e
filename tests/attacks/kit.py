"""Two hosts to attack: node a in this network namespace, node b in a second one, joined by an Ethernet cable."""

import contextlib
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))

from testbed import SKIPPED, Failure, Testbed, are_installed, option_parser, wait_until  # noqa: E402,F401
from namespaces import enter_user_namespace, ip, joined_by_veth  # noqa: E402,F401

RPING_SECONDS_MAX = 100
IPV6_ADDRESSES = {"a": "fd77::1", "b": "fd77::2"}


class Hosts:
    """The testbed; by node the addresses, and the process whose network namespace it has (None: this one's)."""

    def __init__(self, testbed, peer, ipv4_addresses):
        self.testbed = testbed
        self.pids = {"a": None, "b": peer.pid}
        self.ipv4 = ipv4_addresses
        self.ipv6 = IPV6_ADDRESSES
        self._peer = peer

    def run_at(self, node, *argv):
        """Returns the start of a command that runs in the node's network namespace."""
        return self._peer.run(*argv) if node == "b" else ip(" ".join(argv))


@contextlib.contextmanager
def two_hosts(options, **variables):
    """The nodes have an IPv4 and an IPv6 address each, and these variables. `Hosts.testbed` uses the IPv4 addresses
    by default. Call `enter_user_namespace` first."""
    with joined_by_veth() as (peer, address_a, address_b):
        ip(f"ip address add {IPV6_ADDRESSES['a']}/64 dev veth-a nodad")
        peer.run(*f"ip address add {IPV6_ADDRESSES['b']}/64 dev veth-b nodad".split())
        with Testbed(options, namespace_pids={"b": peer.pid}) as testbed:
            testbed.set_addresses("a", address_a, IPV6_ADDRESSES["a"])
            testbed.set_addresses("b", address_b, IPV6_ADDRESSES["b"])
            for node in ("a", "b"):
                testbed.set_variables(node, **variables)
            yield Hosts(testbed, peer, {"a": address_a, "b": address_b})


def start_rping(hosts, address, *options):
    """Starts a server at a and a client at b, which compare every byte that they READ and WRITE. Returns both."""
    words = ["-a", address, "-V", "-S", "65000", *options]
    server = hosts.testbed.start("a", ["rping", "-s", *words])
    wait_until(lambda: server.ended() or hosts.testbed.bound_ports("a"), RPING_SECONDS_MAX, "rping -s to listen")
    return server, hosts.testbed.start("b", ["rping", "-c", *words])


def rping(hosts, address, rounds):
    server, client = start_rping(hosts, address, "-C", str(rounds))
    client.expect_success(RPING_SECONDS_MAX)
    server.expect_success(RPING_SECONDS_MAX)
