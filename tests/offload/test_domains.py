#!/usr/bin/env python3
"""`verbatim nic ovs up` on a host and on a DPU: the same checks pass in both. Where root runs this, the DPU's host belongs
to another user. Takes the build's folder."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

SKIPPED = 77
PATIENCE = 20  # Seconds until something must be true.
MAC = "02:00:00:00:00:77"


class Failure(Exception):
    pass


def expect(condition, words):
    if not condition:
        raise Failure(words)


def until(condition, words):
    end = time.monotonic() + PATIENCE
    while not condition():
        expect(time.monotonic() < end, words)
        time.sleep(0.1)


class SetUp:
    """One of the two: where Open vSwitch is and where the functions are, and what the bridge's ports are called."""

    def __init__(self, build, mode):
        self.verbatim, self.mode = f"{build}/bin/verbatim", mode
        self.machines = "host" if mode == "dpu" else "shell"
        self.functions = ["pf0vf0", "pf0vf1"] if mode == "dpu" else ["vf0", "vf1"]
        self.ports = ["p0", "pf0hpf", *self.functions] if mode == "dpu" else ["up0", *self.functions]
        self.folder = pathlib.Path(os.environ["XDG_RUNTIME_DIR"]) / f"verbatim-nic-ovs-{os.getuid()}"

    def command(self, *words, check=True, **more):
        done = subprocess.run([self.verbatim, "nic", "ovs", *words], text=True, check=False, capture_output=True,
                              timeout=120, **more)
        expect(done.returncode == 0 or not check, f"{' '.join(words)}: {done.stdout}{done.stderr}")
        return done

    def switch(self, *words, **more):
        """Where Open vSwitch is."""
        return self.command("shell", "--", *words, **more).stdout

    def machine(self, number, *words, **more):
        """In a virtual machine, which has a function."""
        return self.command(self.machines, "--", "ip", "netns", "exec", f"vf{number}", *words, **more).stdout

    def lost(self, number, to, count, gap):
        """Per cent of pings."""
        told = self.machine(number, "ping", "-c", str(count), "-i", str(gap), "-q", "-W", "1", to, check=False)
        return float(re.search(r"([0-9.]+)% packet loss", told)[1])

    def offloaded(self):
        return self.switch("ovs-appctl", "dpctl/dump-flows", "-m", "type=offloaded").count("offloaded:yes, dp:dpdk")

    def offloaded_bytes(self):
        ports = json.loads(self.switch("verbatim", "nic", "stats", "--name", "ovs", "--json"))["ports"]
        return sum(port["offloaded_bytes"] for port in ports)

    def packets_of(self, flow):
        told = self.switch("ovs-ofctl", "dump-flows", "br0", flow)
        return sum(int(packets) for packets in re.findall(r"n_packets=(\d+)", told))

    def process(self):
        return int((self.folder / "ovs-vswitchd.pid").read_text(encoding="utf-8"))


def ports_are_offloaded(setup):
    log = (setup.folder / "ovs-vswitchd.log").read_text(encoding="utf-8")
    for port in setup.ports:
        expect(f"{port}: Assigned flow API 'dpdk_flow_api'" in log, f"{port} has no flow API")
    expect(not re.search(r"\|(ERR|EMER)\|", log), log)


def counters_are_exact(setup):
    one, two = setup.functions
    rules = f"arp,actions=NORMAL\nicmp,in_port={one},actions=output:{two}\nicmp,in_port={two},actions=output:{one}\n"
    setup.switch("ovs-ofctl", "--bundle", "replace-flows", "br0", "-", input=rules)
    expect(setup.lost(0, "10.9.0.2", 1000, 0.002) == 0, "pings lost")
    until(lambda: [setup.packets_of(f"icmp,in_port={port}") for port in setup.functions] == [1000, 1000],
          "OpenFlow does not count 1000 packets")
    expect(setup.offloaded() >= 2, "not offloaded")
    setup.switch("ovs-ofctl", "--bundle", "replace-flows", "br0", "-", input="actions=NORMAL\n")


def software_sees_almost_nothing(setup):
    expect(setup.lost(0, "10.9.0.2", 3, 0.3) == 0, "pings lost")
    until(lambda: setup.offloaded() >= 2, "not offloaded")
    setup.switch("ovs-appctl", "dpif-netdev/pmd-stats-clear")
    expect(setup.lost(0, "10.9.0.2", 50, 0.02) == 0, "pings lost")
    told = setup.switch("ovs-appctl", "dpif-netdev/pmd-stats-show")
    seen = max(int(packets) for packets in re.findall(r"packets received: *(\d+)", told))
    expect(seen <= 10, f"software saw {seen} of 100 packets")


def flows_outlive_a_stop(setup):
    for number in range(2):  # What is asked meanwhile goes to software.
        setup.machine(number, "ping", "-c", "3", "-i", "0.3", "-q", "10.9.0.100")
        setup.machine(number, "ip", "neigh", "change", "10.9.0.100", "dev", "eth0", "nud", "permanent")
        setup.switch("ip", "netns", "exec", "up", "ip", "neigh", "change", f"10.9.0.{number + 1}", "dev", "eth0", "nud",
                     "permanent")
    setup.switch("ovs-appctl", "revalidator/purge")
    expect(setup.lost(0, "10.9.0.100", 3, 0.3) == 0, "pings lost")
    until(lambda: setup.offloaded() >= 2, "not offloaded")
    os.kill(setup.process(), signal.SIGSTOP)
    try:
        expect(setup.lost(0, "10.9.0.100", 20, 0.1) == 0, "offloaded traffic stopped with ovs-vswitchd")
        expect(setup.lost(1, "10.9.0.100", 5, 0.1) == 100, "a flow that nobody has decided was forwarded")
    finally:
        os.kill(setup.process(), signal.SIGCONT)
    until(lambda: setup.lost(1, "10.9.0.100", 3, 0.1) == 0, "new flows do not recover")


def rdma_nodes_use_functions(setup):
    """RoCE v2 between two nodes, each in a machine of its own: no new code, and the card forwards it."""
    def node(number):
        return [setup.verbatim, "run", "--node", f"n{number}", "--address", f"10.9.0.{number + 1}", "--"]

    bandwidth = ["ib_write_bw", "-x", "1", "-s", "65536", "-n", "500"]
    server = threading.Thread(target=setup.machine, args=(1, *node(1), *bandwidth))
    server.start()
    until(lambda: ":18515" in setup.machine(1, "ss", "-lnt"), "the server does not listen")
    before = setup.offloaded_bytes()
    told = setup.machine(0, *node(0), *bandwidth, "10.9.0.2")
    server.join()
    expect(re.search(r"^ *65536 +500 ", told, re.MULTILINE), told)
    until(lambda: setup.offloaded_bytes() - before > 500 * 65536 / 2, "software has forwarded it")


def idle_flows_end(setup):
    setup.switch("ovs-vsctl", "set", "Open_vSwitch", ".", "other_config:max-idle=500")
    until(lambda: "ipv4" not in setup.switch("verbatim", "nic", "flows", "--name", "ovs"), "rules stay in the card")


def mac_and_link_are_the_switchs(setup):
    port = setup.functions[1]
    setup.switch("ovs-vsctl", "set", "Interface", port, f"options:dpdk-vf-mac={MAC}")
    until(lambda: MAC in setup.machine(1, "ip", "-br", "link", "show", "eth0"), "the function has another MAC")
    setup.switch("ovs-ofctl", "mod-port", "br0", port, "down")
    until(lambda: "NO-CARRIER" in setup.machine(1, "ip", "-br", "link", "show", "eth0"), "the link stays up")
    setup.switch("ovs-ofctl", "mod-port", "br0", port, "up")
    setup.machine(0, "ip", "neigh", "flush", "dev", "eth0")  # It knows the old MAC.
    until(lambda: setup.lost(0, "10.9.0.2", 3, 0.1) == 0, "no traffic when the link is up again")


def host_has_functions_only(setup):
    def host(*words):
        return setup.command("host", "--", *words, check=False)

    expect("1 received" in host("ping", "-c", "1", "-W", "5", "10.9.0.100").stdout, "pf0hpf does not forward")
    links = host("ip", "-br", "link").stdout.split()
    expect("nicpf" in links and "nicup" not in links and "br0" not in links, f"the host's links: {links}")
    expect("ovs" not in host("ps", "axww").stdout, "the host sees processes of the DPU")
    for words in (["ls", str(setup.folder / "card.sock")], ["umount", str(setup.folder)],
                  ["kill", "-0", str(setup.process())], [setup.verbatim, "nic", "flows", "--name", "ovs"],
                  ["ovs-vsctl", f"--db=unix:{setup.folder}/db.sock", "-t", "2", "show"]):
        expect(host(*words).returncode != 0, f"the host may do: {' '.join(words)}")
    holder = (setup.folder / "host.pid").read_text(encoding="utf-8").strip()
    owner = os.stat(f"/proc/{holder}").st_uid
    expect((owner == os.getuid()) == (os.getuid() != 0), f"the host's user is {owner}")


SAME = [ports_are_offloaded, counters_are_exact, software_sees_almost_nothing, flows_outlive_a_stop,
        rdma_nodes_use_functions, idle_flows_end, mac_and_link_are_the_switchs]
OF_A_DPU = [host_has_functions_only]


def run(build, mode):
    setup = SetUp(build, mode)
    failed = 0
    setup.command("up", "--mode", mode)
    try:
        for check in SAME + (OF_A_DPU if mode == "dpu" else []):
            try:
                check(setup)
                print(f"ok    {mode} {check.__name__}", flush=True)
            except Failure as failure:
                print(f"FAIL  {mode} {check.__name__}: {failure}", flush=True)
                failed += 1
    finally:
        setup.command("down")
    expect(not setup.folder.exists(), f"{setup.folder} stays")
    return failed


def skip_without(build):
    missing = None
    if not os.path.exists("/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"):
        missing = "openvswitch-switch-dpdk is not installed"
    elif not os.path.exists(f"{build}/lib/librte_net_verbatim.so"):
        missing = "the DPDK driver is not built (./setup.sh nic)"
    elif not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        missing = "/dev/net/tun cannot be opened"
    elif subprocess.run(["unshare", "-Urnm", "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        missing = "no user namespaces"
    if missing:
        print(f"skipped: {missing}")
        sys.exit(SKIPPED)


def main():
    build = os.path.abspath(sys.argv[1])
    skip_without(build)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        return sum(run(build, mode) for mode in ("host", "dpu"))


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
