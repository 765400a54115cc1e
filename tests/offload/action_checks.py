"""Each action, byte for byte: the first frames go through software, later ones through the card, and all must come out
the same."""

import pathlib
import re
import subprocess
import sys

from setup import expect, until

FRAMES = str(pathlib.Path(__file__).with_name("frames.py"))
PAYLOAD = "41" * 20
PLAIN = "020000000002020000000001080045000030000040004011266f0a0900010a0900020bb80fa0001c0000" + PAYLOAD
TAGGED = "0200000000020200000000018100606408004500003000004000401126" + "6f0a0900010a0900020bb80fa0001c0000" + PAYLOAD
COUNT = 20
ACTIONS = [
    (PLAIN, "output:vf1"),
    (PLAIN, "mod_dl_src:02:11:22:33:44:55,mod_dl_dst:02:00:00:00:00:02,output:vf1"),
    (PLAIN, "push_vlan:0x8100,set_field:4196->vlan_vid,output:vf1"),
    (PLAIN, "push_vlan:0x8100,set_field:4196->vlan_vid,set_field:5->vlan_pcp,output:vf1"),
    (TAGGED, "strip_vlan,output:vf1"),
    (TAGGED, "set_field:4103->vlan_vid,output:vf1"),
    (PLAIN, "output:vf1,output:up0"),
    (PLAIN, "output:up0,mod_dl_src:02:11:22:33:44:55,output:vf1"),
    (PLAIN, "drop"),
    (PLAIN, "mod_nw_src:10.9.0.77,output:vf1"),
    (PLAIN, "mod_nw_dst:10.9.0.78,output:vf1"),
    (PLAIN, "mod_tp_src:7777,output:vf1"),
    (PLAIN, "mod_tp_dst:7778,output:vf1"),
    (PLAIN, "dec_ttl,output:vf1"),
    (PLAIN, "mod_nw_ttl:9,output:vf1"),
    (PLAIN, "mod_nw_src:10.9.0.77,mod_tp_dst:7778,dec_ttl,push_vlan:0x8100,set_field:4105->vlan_vid,output:vf1"),
]


class Receiver:
    """Of frames with the payload, in a namespace."""

    def __init__(self, setup, namespace):
        self._process = subprocess.Popen(
            [*setup.inside(namespace), sys.executable, "-B", FRAMES, "receive", "eth0", PAYLOAD[8:]],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        expect(self._process.stdout.readline() == "ready\n", "the receiver does not listen")

    def frames(self):
        """By frame how many came."""
        told = self._process.communicate()[0]
        return {frame: int(count) for count, frame in (line.split() for line in told.splitlines())}


def send(setup, frame):
    setup.machine(0, sys.executable, "-B", FRAMES, "send", "eth0", frame, str(COUNT), "0.05")


def card_does_as_software(setup):
    setup.warm_up()
    for frame, actions in ACTIONS:
        match = "udp,dl_vlan=100" if frame == TAGGED else "udp"
        setup.rules(f"{match},in_port=vf0,actions={actions}")
        receivers = [Receiver(setup, namespace) for namespace in ("vf1", "up")]
        send(setup, frame)
        until(lambda: re.search(r"in_port\(vf0\).*eth_type\(0x0800\).*offloaded:yes",
                                setup.appctl("dpctl/dump-flows", "-m", "--names", "type=offloaded")),
              lambda what=actions: f"{what}: not offloaded")
        came = [receiver.frames() for receiver in receivers]
        for namespace, frames in zip(("vf1", "up0"), came, strict=True):
            wanted = COUNT if f"output:{namespace}" in actions else 0
            expect(len(frames) <= 1, f"{actions}: software and card differ: {frames}")
            expect(sum(frames.values()) == wanted, f"{actions}: {wanted} frames to {namespace}: {frames}")


def tunnels_begin_in_the_card(setup):
    """VXLAN: what the card sends is what software sends, but for the source port."""
    setup.vsctl("del-port", "br0", "up0", "--", "add-br", "br-phy", "--", "set", "bridge", "br-phy",
                "datapath_type=netdev", "--", "add-port", "br-phy", "up0", "--", "set", "Interface", "up0", "type=dpdk",
                f"options:dpdk-devargs={setup.devargs}", "--", "add-port", "br0", "vx0", "--", "set", "Interface", "vx0",
                "type=vxlan", "options:remote_ip=172.16.0.100", "options:key=42")
    setup.switch("ip", "addr", "add", "172.16.0.1/24", "dev", "br-phy")
    setup.switch("ip", "link", "set", "br-phy", "up")
    setup.wire("ip", "addr", "add", "172.16.0.100/24", "dev", "eth0")
    setup.wire("ping", "-c", "2", "-i", "0.3", "-q", "172.16.0.1")
    mac = re.search(r"link/ether (\S+)", setup.wire("ip", "link", "show", "eth0"))[1]
    # Otherwise the first frame is lost in Open vSwitch, which then asks for the address.
    setup.appctl("tnl/neigh/set", "br-phy", "172.16.0.100", mac)
    setup.rules("udp,in_port=vf0,actions=output:vx0")
    receiver = Receiver(setup, "up")
    send(setup, PLAIN)
    until(lambda: re.search(r"tnl_push.*offloaded:yes|offloaded:yes.*tnl_push",
                            setup.appctl("dpctl/dump-flows", "-m", "type=offloaded")), "not offloaded")
    frames = receiver.frames()
    source_port = slice(2 * 34, 2 * 36)  # After Ethernet and IPv4.
    kinds = {frame[:source_port.start] + frame[source_port.stop:] for frame in frames}
    expect(len(kinds) == 1, f"software and card differ: {frames}")
    expect(sum(frames.values()) == COUNT, f"of {COUNT} frames: {frames}")
