"""The column InfiniBand: rows between two hosts of a fabric, three switches apart, and how their words differ."""

import dataclasses
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "fabric"))

# pylint: disable=wrong-import-position
from fabricbed import CHAIN, FabricBed
from testbed import Program, Testbed, wait_until

HOSTS = {"a": "H1", "b": "H2"}
SECONDS_TO_ACTIVE = 60


def without(row):
    """Says why a row has no place on InfiniBand; None if it has one."""
    words = f"{row.client} {row.server}"
    if row.protocol or row.near:
        return "of another path"
    if "raw_ethernet" in words:
        return "InfiniBand has no Ethernet frames"
    if "{a6}" in words:
        return "hosts have no IPv6 address before IPoIB"
    if row.client.startswith("mpi "):
        return "mpirun's ranks are started on nodes, not on hosts"
    return None


def over_infiniband(row):
    """The same row on a fabric: by LID where RoCE needs a GID, and what RoCE refuses for want of a GRH passes."""
    def words(text):
        return re.sub(r" -g 1\b", "", text).replace("::ffff:{a}", "{gid_a}").replace("::ffff:{b}", "{gid_b}")

    changes = {"client": words(row.client), "server": words(row.server)}
    if row.group == "qperf" and row.refused:
        changes |= {"refused": "", "expect": rf"(?m)^{row.name}:\n +(bw|latency|send_bw|msg_rate)"}
    return dataclasses.replace(row, **changes)


class FabricTestbed(Testbed):
    """Nodes a and b are hosts of a fabric that runs already."""

    def __init__(self, options, setup):
        super().__init__(options)
        self._setup = setup
        for node, address in setup.addresses.items():
            self.set_addresses(node, address)

    def environment(self):
        return super().environment() | {"XDG_RUNTIME_DIR": self._setup.bed.folder}

    def start(self, node, argv, stdin=None):
        command = ["setpriv", "--pdeathsig", "KILL", "--", f"{self.build}/bin/verbatim", "run", "--host", HOSTS[node],
                   "--", *argv]
        name = f"{os.path.basename(argv[0])} on host {HOSTS[node]}"
        program = Program(name, command, self.environment(), f"{self.folder}/{len(self.programs)}.log", stdin)
        self.programs.append(program)
        return program

    def node_status(self, node):
        shown = json.loads(self._setup.bed.verbatim("status", "--json", check=False) or "[]")
        return next((entry for entry in shown if entry.get("host") == HOSTS[node]), None)

    def agents(self):
        return []  # The fabric's, which end with it.


class FabricSetup:
    """One fabric for all rows."""

    def __init__(self, options):
        self.options = options
        self.bed = FabricBed(options)
        self.bed.up(CHAIN, "--manager", "opensm")
        wait_until(lambda: all("State: Active" in self.bed.run(host, "ibstat") for host in HOSTS.values()),
                   SECONDS_TO_ACTIVE, "the subnet manager to bring the hosts up")
        shown = self.bed.hosts()
        self.addresses = {node: shown[host]["address"] for node, host in HOSTS.items()}
        self.gids = {f"gid_{node}": shown[host]["gid"] for node, host in HOSTS.items()}

    def testbed(self, near=False, protocol=""):
        assert not near and not protocol
        return FabricTestbed(self.options, self)

    def words(self, testbed, port):
        return {"a": self.addresses["a"], "b": self.addresses["b"], "port": port, "folder": testbed.folder,
                "build": testbed.build, "here": HERE, **self.gids}

    def close(self):
        self.bed.__exit__(None, None, None)
