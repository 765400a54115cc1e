"""Debian's Open vSwitch with a card, as `verbatim nic ovs up` starts it on a host or on a DPU, and what tests ask of it."""

import json
import os
import pathlib
import re
import subprocess
import sys
import time

SKIPPED = 77
PATIENCE = 30  # Seconds until something must be true.
DPDK = "--no-huge --legacy-mem -m {} --no-pci --no-shconf --no-telemetry -d librte_net_verbatim.so"


class Failure(Exception):
    pass


def expect(condition, words):
    if not condition:
        raise Failure(words)


def until(condition, words):
    end = time.monotonic() + PATIENCE
    while not condition():
        expect(time.monotonic() < end, words() if callable(words) else words)
        time.sleep(0.1)


class SetUp:
    """Where Open vSwitch is and where the functions are, and what the bridge's ports are called."""

    def __init__(self, build, mode="host", words=()):
        """`words`: more options of `nic ovs up`."""
        self.verbatim, self.mode, self.words = f"{build}/bin/verbatim", mode, words
        self.machines = "host" if mode == "dpu" else "shell"
        self.functions = ["pf0vf0", "pf0vf1"] if mode == "dpu" else ["vf0", "vf1"]
        self.ports = ["p0", "pf0hpf", *self.functions] if mode == "dpu" else ["up0", *self.functions]
        self.folder = pathlib.Path(os.environ["XDG_RUNTIME_DIR"]) / f"verbatim-nic-ovs-{os.getuid()}"
        self.devargs = f"net_verbatim0,socket={self.folder}/card.sock"

    def up(self, *settings):
        """`settings`: other_config of Open vSwitch, KEY=VALUE."""
        self.command("up", "--mode", self.mode, *self.words, "--", *settings)

    def down(self):
        process = self.process()
        self.command("down")
        expect(not self.folder.exists(), f"{self.folder} stays")
        expect(not pathlib.Path(f"/proc/{process}/exe").exists(), f"Open vSwitch, process {process}, stays")

    def command(self, *words, check=True, **more):
        done = subprocess.run([self.verbatim, "nic", "ovs", *words], text=True, check=False, capture_output=True,
                              timeout=120, **more)
        expect(done.returncode == 0 or not check, f"{' '.join(words)}: {done.stdout}{done.stderr}")
        return done

    def switch(self, *words, **more):
        """Where Open vSwitch is."""
        return self.command("shell", "--", *words, **more).stdout

    def vsctl(self, *words):
        return self.switch("ovs-vsctl", "-t", "20", *words)

    def appctl(self, *words):
        return self.switch("ovs-appctl", *words)

    def rules(self, *rules):
        """Replaces the rules of OpenFlow in one step: between a deletion and an addition Open vSwitch decides to drop,
        and the card does it."""
        self.switch("ovs-ofctl", "--bundle", "replace-flows", "br0", "-", input="\n".join(rules) + "\n")

    def inside(self, namespace):
        """The words that run a command in a namespace: vf0, vf1 (machines) or up (what is at the wire)."""
        where = self.machines if namespace != "up" else "shell"
        return [self.verbatim, "nic", "ovs", where, "--", "ip", "netns", "exec", namespace]

    def machine(self, number, *words, **more):
        """In a virtual machine, which has a function."""
        return self.command(*self.inside(f"vf{number}")[3:], *words, **more).stdout

    def wire(self, *words, **more):
        return self.command(*self.inside("up")[3:], *words, **more).stdout

    def lost(self, number, to, count, gap):
        """Per cent of pings."""
        told = self.machine(number, "ping", "-c", str(count), "-i", str(gap), "-q", "-W", "1", to, check=False)
        return float(re.search(r"([0-9.]+)% packet loss", told)[1])

    def start(self, number, *words):
        """Starts a command in a machine."""
        return subprocess.Popen([*self.inside(f"vf{number}"), *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True)

    def warm_up(self, to="10.9.0.2"):
        """Flows between machine 0 and `to` are offloaded."""
        expect(self.lost(0, to, 3, 0.3) == 0, f"pings to {to} are lost")
        until(lambda: self.offloaded() >= 2, "not offloaded")

    def offloaded(self):
        return self.appctl("dpctl/dump-flows", "-m", "type=offloaded").count("offloaded:yes, dp:dpdk")

    def backlog(self):
        """Rules that wait for the card."""
        return int(re.search(r"Total *Enqueued offloads: *(\d+)", self.appctl("dpctl/offload-stats-show"))[1])

    def seen_by_software(self, what="packets received"):
        return max(int(packets) for packets in re.findall(rf"{what}: *(\d+)", self.appctl("dpif-netdev/pmd-stats-show")))

    def expect_offload(self):
        """Of 100 packets software sees almost none."""
        self.appctl("dpif-netdev/pmd-stats-clear")
        expect(self.lost(0, "10.9.0.2", 50, 0.02) == 0, "pings are lost")
        seen = self.seen_by_software()
        expect(seen <= 10, f"software saw {seen} of 100 packets")

    def expect_quiet_log(self):
        log = (self.folder / "ovs-vswitchd.log").read_text(encoding="utf-8")
        expect(not re.search(r"\|(ERR|EMER)\|", log), log)

    def card(self, question="show"):
        return json.loads(self.switch("verbatim", "nic", question, "--name", "ovs", "--json"))

    def offloaded_bytes(self):
        return sum(port["offloaded_bytes"] for port in self.card("stats")["ports"])

    def packets_of(self, flow):
        told = self.switch("ovs-ofctl", "dump-flows", "br0", flow)
        return sum(int(packets) for packets in re.findall(r"n_packets=(\d+)", told))

    def process(self):
        """Of Open vSwitch."""
        return int((self.folder / "ovs-vswitchd.pid").read_text(encoding="utf-8"))

    def count_by_port(self):
        """OpenFlow then counts the packets of each direction. To be called before there is traffic: what Open vSwitch
        has not booked when flows change goes anywhere."""
        one, two = self.functions
        self.rules("arp,actions=NORMAL", f"icmp,in_port={one},actions=output:{two}",
                   f"icmp,in_port={two},actions=output:{one}")


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


def run(setup, checks, settings=()):
    """Runs checks in one set-up. Returns how many have failed."""
    failed = 0
    setup.up(*settings)
    try:
        for check in checks:
            try:
                check(setup)
                print(f"ok    {setup.mode} {check.__name__}", flush=True)
            except Failure as failure:
                print(f"FAIL  {setup.mode} {check.__name__}: {failure}", flush=True)
                failed += 1
    finally:
        setup.down()
    return failed
