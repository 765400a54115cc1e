"""The column InfiniBand: rows between two hosts of a fabric, three switches apart, and how their words differ."""

import dataclasses
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "fabric"))

# pylint: disable=wrong-import-position
from fabricbed import CHAIN, FabricBed, HostsTestbed

HOSTS = {"a": "H1", "b": "H2"}


def without(row):
    """Says why a row has no place on InfiniBand; None if it has one."""
    words = f"{row.client} {row.server}"
    if row.protocol or row.near:
        return "of another path"
    if "raw_ethernet" in words:
        return "InfiniBand has no Ethernet frames"
    if "over sockets" in row.name:
        return "uDAPL's sockets want an interface for each host, and hosts share the loopback interface"
    if "{build}/bin/verbatim" in words:
        return "tests/networks and tests/storage have services on fabrics"
    if "{a6}" in words:
        return "hosts have no IPv6 address before IPoIB"
    return None


def over_infiniband(row):
    """The same row on a fabric: by LID where RoCE needs a GID, and what RoCE refuses for want of a GRH passes."""
    def words(text):
        return re.sub(r" -g 1\b", "", text).replace("::ffff:{a}", "{gid_a}").replace("::ffff:{b}", "{gid_b}")

    changes = {"client": words(row.client), "server": words(row.server)}
    if row.group == "qperf" and row.refused:
        changes |= {"refused": "", "expect": rf"(?m)^{row.name}:\n +(bw|latency|send_bw|msg_rate)"}
    return dataclasses.replace(row, **changes)


class FabricSetup:
    """One fabric for all rows."""

    def __init__(self, options):
        self.options = options
        self.bed = FabricBed(options)
        self.bed.up(CHAIN, "--manager", "opensm")
        self.bed.wait_until_active(*HOSTS.values())
        shown = self.bed.hosts()
        self.addresses = {node: shown[host]["address"] for node, host in HOSTS.items()}
        self.gids = {f"gid_{node}": shown[host]["gid"] for node, host in HOSTS.items()}

    def testbed(self, near=False, protocol=""):
        assert not near and not protocol
        return HostsTestbed(self.options, self.bed, HOSTS)

    @staticmethod
    def rank_options(rank):
        """Where mpirun's rank runs: $rank is 0 or 1."""
        return f"--host H$(({rank} + 1))"

    def words(self, testbed, port):
        return {"a": self.addresses["a"], "b": self.addresses["b"], "port": port, "folder": testbed.folder,
                "build": testbed.build, "here": HERE, **self.gids}

    def close(self):
        self.bed.__exit__(None, None, None)
