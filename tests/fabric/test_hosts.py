#!/usr/bin/env python3
"""Verbs programs on hosts of a fabric: the device that they see, and the agent behind it."""

import json
import os
import signal
import subprocess
import sys
import unittest

from fabricbed import TRIANGLE, FabricBed, fields_of, run_tests

from testbed import are_installed, option_parser, wait_until

OPTIONS = None  # Set in main.


def devinfo_of(text):
    """What ibv_devinfo says, by its names."""
    return dict(line.strip().split(":", 1) for line in text.splitlines() if ":" in line)


class Hosts(unittest.TestCase):
    def setUp(self):
        self.bed = FabricBed(OPTIONS)
        self.bed.end_with(self)

    def nodes(self):
        """The status of each node that runs, by its name."""
        return {node["node"]: node for node in json.loads(self.bed.verbatim("status", "--json"))}

    def devinfo(self, host):
        found = devinfo_of(self.bed.run(host, "ibv_devinfo", "-v", "-i", "1"))
        return {name: value.strip() for name, value in found.items()}

    def test_verbs_and_management_show_one_device(self):
        self.bed.up(TRIANGLE, "--manager", "opensm")
        for host in ("H1", "H3"):
            verbs = self.devinfo(host)
            management = fields_of(self.bed.run(host, "smpquery", "portinfo", "-D", "0"))
            port_guid = self.bed.run(host, "ibstat", "-p").split()[0]
            self.assertEqual(verbs["link_layer"], "InfiniBand")
            self.assertEqual(verbs["state"], "PORT_ACTIVE (4)")
            self.assertEqual(verbs["port_lid"], management["Lid"])
            self.assertEqual(verbs["sm_lid"], management["SMLid"])
            self.assertEqual(verbs["active_width"].split()[0], management["LinkWidthActive"].upper())
            self.assertIn(management["NeighborMTU"], verbs["active_mtu"])
            prefix, guid = verbs["GID[  0]"].replace(":", "")[:16], verbs["GID[  0]"].replace(":", "")[16:]
            self.assertEqual(int(prefix, 16), 0xfe80 << 48)
            self.assertEqual(int(guid, 16), int(port_guid, 16))
            keys = self.bed.run(host, "sh", "-c", "cat /sys/class/infiniband/verbatim0/ports/1/pkeys/0")
            self.assertEqual(keys.strip(), "0xffff")

    def test_netlink_shows_the_same_device(self):
        if not are_installed("rdma"):
            self.skipTest("no iproute2")
        self.bed.up(TRIANGLE, "--manager", "opensm")
        verbs = self.devinfo("H1")
        (device,) = json.loads(self.bed.run("H1", "rdma", "-j", "dev"))
        self.assertEqual((device["node_type"], device["node_guid"]), ("ca", verbs["node_guid"]))
        first, second = json.loads(self.bed.run("H1", "rdma", "-j", "link"))
        self.assertEqual((first["state"], first["physical_state"]), ("ACTIVE", "LINK_UP"))
        self.assertEqual((first["lid"], first["sm_lid"]), (int(verbs["port_lid"]), int(verbs["sm_lid"])))
        self.assertEqual(first["subnet_prefix"], "fe80:0000:0000:0000")
        self.assertNotIn("netdev", first)
        self.assertEqual((second["port"], second["state"]), (2, "DOWN"))

    def test_port_follows_the_manager(self):
        self.bed.up(TRIANGLE)
        self.assertEqual(self.devinfo("H2")["port_lid"], "0")
        self.bed.start_manager("H1")
        wait_until(lambda: self.devinfo("H2")["state"] == "PORT_ACTIVE (4)", 30, "an active port")
        self.assertNotEqual(self.devinfo("H2")["port_lid"], "0")

    def test_the_view_counts_what_crosses_the_cable(self):
        self.bed.up(TRIANGLE, "--manager", "opensm")
        self.start_sleeper("H2")

        def sent():
            return int(self.bed.run("H2", "cat", "/sys/class/infiniband/verbatim0/ports/1/counters/port_xmit_packets"))

        wait_until(lambda: sent() > 0, 30, "counters")
        before = sent()
        self.bed.run("H2", "ibnetdiscover")
        wait_until(lambda: sent() > before, 30, "further packets")

    def test_hosts_are_nodes_of_their_fabric(self):
        self.bed.up(TRIANGLE, "--name", "one")
        status = json.loads(self.bed.verbatim("run", "--fabric", "one", "--host", "H2", "--",
                                              f"{self.bed.build}/bin/verbatim", "status", "--json"))
        self.assertEqual([(node["node"], node["fabric"], node["host"]) for node in status], [("one.H2", "one", "H2")])
        addresses = {node["name"]: node.get("address") for node in self.bed.status("--name", "one")["nodes"]}
        self.assertEqual(status[0]["addresses"], [addresses["H2"]])
        self.bed.verbatim("fabric", "down", "--name", "one")

    def start_sleeper(self, host):
        sleeper = self.bed.start(host, "sleep", "1000")
        wait_until(lambda: any(node.get("host") == host for node in self.nodes().values()), 30, f"the agent of {host}")
        return sleeper

    def test_fabric_down_ends_the_agents(self):
        self.bed.up(TRIANGLE)
        sleeper = self.start_sleeper("H1")
        self.bed.verbatim("fabric", "down")
        self.assertEqual(self.nodes(), {})
        FabricBed.end(sleeper)
        self.assertEqual(self.bed.processes(), [])

    def test_a_killed_daemon_ends_the_agents(self):
        self.bed.up(TRIANGLE)
        self.start_sleeper("H1")
        (agent,) = self.nodes().values()
        daemons = [pid for pid in self.bed.processes() if os.readlink(f"/proc/{pid}/exe").endswith("verbatim-fabricd")]
        os.kill(*daemons, signal.SIGKILL)
        wait_until(lambda: not os.path.exists(f"/proc/{agent['agent_pid']}"), 30, "the end of the agent")

    def test_a_killed_agent_is_replaced(self):
        self.bed.up(TRIANGLE)
        self.start_sleeper("H1")
        (agent,) = self.nodes().values()
        os.kill(agent["agent_pid"], signal.SIGKILL)
        self.assertEqual(self.devinfo("H1")["link_layer"], "InfiniBand")

    def test_what_is_wrong_is_said(self):
        self.bed.up(TRIANGLE)
        environment = self.bed.environment() | {"VERBATIM_HOST": "H9"}
        done = subprocess.run([f"{self.bed.build}/bin/verbatim", "devices"], env=environment, text=True, check=False,
                              capture_output=True, timeout=60)
        self.assertIn("has no host 'H9'", done.stderr)


def main():
    global OPTIONS
    OPTIONS = option_parser(__doc__).parse_args()
    run_tests()
    return 0


if __name__ == "__main__":
    sys.exit(main())
