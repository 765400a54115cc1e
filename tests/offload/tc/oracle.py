#!/usr/bin/env python3
"""oracle.py FROM TO [tunnels]: each rule of tc gives the same frames, byte for byte, in the card (skip_sw) and in Linux's
software (skip_hw). FROM and TO are representors of the functions in the namespaces n0 and n1. With tunnels, frames are sent
by what is at the wire (namespace nw), and the rules are those of vxlan0, geneve0 and gretap1: Linux takes no skip_sw there,
so they are in both. With encap, rules put frames into tunnels, which come out at the wire. Runs in the guest."""

import ctypes
import os
import socket
import struct
import subprocess
import sys
import time

AUXDATA, SOL_PACKET = 8, 263
LAST = bytes.fromhex("020000000002020000000001") + b"\x88\xb5" + bytes(50)  # Comes after all others.
SET_TCP = "pedit ex munge eth dst set 02:00:00:00:00:0a munge ip ttl set 9 munge ip src set 1.2.3.4 munge tcp dport set 99"
PEER, ARP = bytes.fromhex("020000000009"), b"\x08\x06"  # At the wire.
TUNNEL = "enc_src_ip 10.8.0.2 enc_dst_ip 10.8.0.1"
PORTS = {"vxlan0": "enc_dst_port 4789", "geneve0": "enc_dst_port 6081", "gretap1": ""}
# (protocol, match, actions before the redirection)
CASES = (
    ("all", "", ""),
    ("ip", "", ""),
    ("ip", "ip_proto tcp dst_port 80", ""),
    ("ip", "ip_proto tcp tcp_flags 0x2/0x12", ""),
    ("ip", "ip_proto udp src_port 1000 ip_flags nofrag", ""),
    ("ip", "ip_proto icmp type 8 code 0", ""),
    ("ip", "ip_proto sctp dst_port 80", ""),
    ("ip", "dst_ip 10.9.0.0/30", ""),
    ("ip", "ip_tos 0x10/0xfc ip_ttl 64", ""),
    ("ip", "ip_flags nofrag", ""),
    ("ip", "ip_flags frag", ""),
    ("ip", "ip_flags frag/firstfrag", ""),
    ("ip", "ip_flags frag/nofirstfrag", ""),
    ("ipv6", "", ""),
    ("ipv6", "ip_proto tcp dst_port 80 src_ip fd09::/64", ""),
    ("ipv6", "ip_flags nofrag", ""),
    ("802.1Q", "", ""),
    ("802.1Q", "vlan_id 5", ""),
    ("802.1Q", "vlan_id 5 vlan_prio 3 vlan_ethtype ip ip_proto udp", ""),
    ("802.1ad", "vlan_id 5", ""),
    ("0x88b6", "dst_mac 02:00:00:00:00:00/ff:ff:ff:ff:ff:00", ""),
    ("ip", "", "vlan push id 7 priority 3 pipe"),
    ("ipv6", "", "vlan push id 7 protocol 802.1ad pipe"),
    ("802.1Q", "", "vlan pop pipe"),
    ("802.1Q", "", "vlan modify id 9 priority 5 pipe"),
    ("ip", "ip_proto tcp", f"{SET_TCP} pipe action csum ip and tcp pipe"),
    ("ip", "ip_proto udp ip_flags nofrag", f"{SET_TCP.replace('tcp', 'udp')} pipe action csum ip and udp pipe"),
    ("ip", "ip_proto icmp", "pedit ex munge ip dst set 1.2.3.4 pipe action csum ip pipe"),
    ("ipv6", "ip_proto tcp", "pedit ex munge ip6 dst set fd09::77 munge tcp sport set 5 pipe action csum tcp pipe"),
    ("ipv6", "ip_proto udp ip_flags nofrag", "pedit ex munge ip6 src set fd09::77 munge udp sport set 5 pipe action csum udp pipe"),
    ("ip", "ip_proto tcp", "mirred egress mirror dev {to} pipe action pedit ex munge eth src set 02:00:00:00:00:0b pipe"),
    ("ip", "ip_proto tcp", "mirred egress mirror dev {to} pipe action vlan push id 9 pipe action mirred egress mirror "
                           "dev {to} pipe action pedit ex munge tcp sport set 6 pipe action csum tcp pipe"),
)
TUNNELS = (
    ("all", "enc_key_id 42", ""),
    ("all", "enc_key_id 42", "tunnel_key unset pipe"),
    ("ip", "enc_key_id 42 ip_proto tcp dst_port 80", "tunnel_key unset pipe"),
    ("ip", "enc_key_id 42 ip_proto udp src_port 900-1100 ip_flags nofrag", "tunnel_key unset pipe"),
    ("ip", "enc_key_id 43 src_ip 10.9.0.0/24", "tunnel_key unset pipe"),
    ("ip", "enc_ttl 64 dst_mac 02:00:00:00:00:02", "tunnel_key unset pipe"),
    ("ip", "enc_key_id 42 enc_tos 0x10 ip_tos 0x10/0xfc", "tunnel_key unset pipe"),
    ("ipv6", "enc_key_id 42 ip_proto tcp", "tunnel_key unset pipe"),
    ("802.1Q", "enc_key_id 42 vlan_id 5", "tunnel_key unset pipe action vlan pop pipe"),
    ("ip", "enc_key_id 42", "tunnel_key unset pipe action vlan push id 7 priority 3 pipe"),
    ("ip", "enc_key_id 42 ip_proto tcp", f"tunnel_key unset pipe action {SET_TCP} pipe action csum ip and tcp pipe"),
    ("ip", "enc_key_id 42 ip_proto tcp", "tunnel_key unset pipe action mirred egress mirror dev {to} pipe action pedit ex munge "
                                         "eth src set 02:00:00:00:00:0b pipe"),
)
# (interface of the tunnel, tunnel_key set)
ENCAPS = tuple((device, f"src_ip 10.8.0.1 dst_ip 10.8.0.2 {key}") for device, key in (
    ("vxlan0", "id 42 dst_port 4789 nocsum"),
    ("vxlan0", "id 7 dst_port 4789 csum tos 0x20 ttl 9"),
    ("geneve0", "id 42 dst_port 6081 nocsum ttl 64"),
    ("geneve0", "id 11259375 dst_port 6081 csum ttl 64 geneve_opts 0102:80:11223344,0103:81:1122334455667788"),
    ("gretap1", "id 42 nocsum"))) + (
    ("vxlan0", "src_ip fd08::1 dst_ip fd08::2 id 42 dst_port 4789 csum"),
    ("geneve0", "src_ip fd08::1 dst_ip fd08::2 id 42 dst_port 6081 nocsum tos 0x20 ttl 9"))
# One that has another option beside it is the card's alone: such packets have another network.
OPTIONS = (
    ("all", "enc_key_id 42 geneve_opts 0102:80:11223344", "tunnel_key unset pipe"),
    ("all", "enc_key_id 42 geneve_opts 0102:80:11223300/ffff:ff:ffffff00", "tunnel_key unset pipe"),
    ("ip", "enc_key_id 42 geneve_opts 0103:81:1122334455667788 ip_proto udp", "tunnel_key unset pipe"),
    ("all", "geneve_opts 0102:80:11223344,0103:81:1122334455667788", "tunnel_key unset pipe"),
)


def checksum(data):
    data += bytes(len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def put(data, at, value):
    return data[:at] + struct.pack("!H", value) + data[at + 2:]


def transport(protocol, pseudo, payload):
    if protocol == 6:
        data = struct.pack("!HHIIBBHHH", 1000, 80, 1, 2, 0x50, 0x02, 100, 0, 0) + payload
        return put(data, 16, checksum(pseudo(len(data)) + data))
    if protocol == 17:
        data = struct.pack("!HHHH", 1000, 80, 8 + len(payload), 0) + payload
        return put(data, 6, checksum(pseudo(len(data)) + data))
    if protocol == 1:
        data = struct.pack("!BBHHH", 8, 0, 0, 1, 1) + payload
        return put(data, 2, checksum(data))
    return struct.pack("!HHII", 1000, 80, 1, 0) + payload  # SCTP, whose checksum no rule here changes.


def ipv4(protocol, fragment=0, tos=0x10, payload=bytes(range(40))):
    addresses = bytes((10, 9, 0, 1, 10, 9, 0, 2))
    data = transport(protocol, lambda size: addresses + struct.pack("!BBH", 0, protocol, size), payload)
    header = struct.pack("!BBHHHBBH", 0x45, tos, 20 + len(data), 7, fragment, 64, protocol, 0) + addresses
    return b"\x08\x00" + put(header, 10, checksum(header)) + data


def ipv6(protocol, fragment=None, payload=bytes(range(41))):
    addresses = bytes.fromhex("fd090000000000000000000000000001fd090000000000000000000000000002")
    data = transport(protocol, lambda size: addresses + struct.pack("!IHBB", size, 0, 0, protocol), payload)
    if fragment is not None:
        data, protocol = struct.pack("!BBHI", protocol, 0, fragment, 1) + data, 44
    return b"\x86\xdd" + struct.pack("!IHBB", 6 << 28, len(data), protocol, 64) + addresses + data


def frames():
    macs = LAST[:12]
    packets = [ipv4(p) for p in (6, 17, 1, 132)] + [ipv4(17, 0x2000), ipv4(17, 0x0005), ipv4(17, 0x2005), ipv4(6, tos=0)]
    packets += [ipv6(6), ipv6(17), ipv6(17, 1), ipv6(17, 0x29), b"\x88\xb6" + bytes(46)]
    for packet in packets:
        yield macs + packet
        yield macs + b"\x81\x00\x60\x05" + packet
        yield macs + b"\x81\x00\x00\x06" + packet
        yield macs + b"\x88\xa8\x60\x05" + packet


def option(kind, data):
    return struct.pack("!HBB", 0x0102 + (kind & 1), kind, len(data) // 4) + data


ONE, OTHER, TWO = option(0x80, bytes.fromhex("11223344")), option(0x80, bytes.fromhex("11223355")), option(
    0x81, bytes.fromhex("1122334455667788"))


def in_tunnel(device, network, inner, tos=0x10, ttl=64, options=b""):
    """As the wire sends it to the host's uplink."""
    if device == "gretap1":
        protocol, data = 47, struct.pack("!HHI", 0x2000, 0x6558, network) + inner
    else:
        port, header = (4789, struct.pack("!II", 0x08000000, network << 8)) if device == "vxlan0" else (
            6081, struct.pack("!BBHI", len(options) // 4, 0, 0x6558, network << 8) + options)
        protocol, data = 17, struct.pack("!HHHH", 5555, port, 8 + len(header) + len(inner), 0) + header + inner
    outer = struct.pack("!BBHHHBBH4B4B", 0x45, tos, 20 + len(data), 7, 0, ttl, protocol, 0, 10, 8, 0, 2, 10, 8, 0, 1)
    return bytes.fromhex("020000000008020000000009" "0800") + put(outer, 10, checksum(outer)) + data


def frames_in_tunnel(device):
    shapes = [{}, {"network": 43}, {"tos": 0}, {"ttl": 9}]
    if device == "geneve0":
        shapes = [{}, {"options": ONE}, {"options": OTHER}, {"options": TWO}, {"options": ONE + TWO, "network": 43},
                  {"options": ONE, "network": 43}]
    for i, inner in enumerate(frames()):
        yield in_tunnel(device, **({"network": 42, "inner": inner} | shapes[(i + i // 8) % len(shapes)]))
    for shape in shapes:
        for protocol in (6, 17):
            yield in_tunnel(device, **({"network": 42, "inner": LAST[:12] + ipv4(protocol)} | shape))


def same_everywhere(frame):
    """A packet of a tunnel without what the sender of each is free to choose: IPv4's identification and UDP's source port,
    and the checksums of them, which must be right."""
    is_ipv4 = frame[12:14] == b"\x08\x00"
    if is_ipv4:
        assert checksum(frame[14:34]) == 0, frame.hex()
        frame = put(put(frame, 18, 0), 24, 0)
    udp = 34 if is_ipv4 else 54
    if frame[23 if is_ipv4 else 20] != 17:
        return frame
    has_checksum = frame[udp + 6:udp + 8] != bytes(2)
    if has_checksum:
        size = frame[udp + 4:udp + 6]
        assert checksum(frame[udp - (8 if is_ipv4 else 32):udp] + b"\0\x11" + size + frame[udp:]) == 0, frame.hex()
    return put(put(frame, udp, 0), udp + 6, 1 if has_checksum else 0)


def packet_socket(namespace):
    here, there = os.open("/proc/self/ns/net", os.O_RDONLY), os.open(f"/run/netns/{namespace}", os.O_RDONLY)
    libc = ctypes.CDLL(None)
    libc.setns(there, 0)
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    made.bind(("eth0", 0))
    libc.setns(here, 0)
    made.setsockopt(SOL_PACKET, AUXDATA, 1)  # Linux takes the VLAN tag out of a frame.
    made.settimeout(10)
    return made


def receive(receiver):
    """Returns a frame that has come from elsewhere, with its tag."""
    while True:
        data, extra, _, where = receiver.recvmsg(65536, 256)
        for level, kind, value in extra:
            if (level, kind) == (SOL_PACKET, AUXDATA):
                status, _, _, _, _, tag, announced = struct.unpack("IIIHHHH", value[:20])
                if status & 0x10:
                    data = data[:12] + struct.pack("!HH", announced if status & 0x40 else 0x8100, tag) + data[12:]
        if where[2] != socket.PACKET_OUTGOING:
            return data


def tc(*words):
    subprocess.run(["tc", *" ".join(words).split()], check=True)


def is_in_hardware(device):
    shown = subprocess.run(["tc", "filter", "show", "dev", device, "ingress"], check=True, capture_output=True, text=True)
    return "not_in_hw" not in shown.stdout and shown.stdout.count("in_hw_count 1") == 2


def run(case, policy, ports, sender, receiver):
    protocol, match, actions = case
    source, to, *through = ports
    is_tunnel = source in PORTS
    always = f"{TUNNEL} {PORTS[source]}" if is_tunnel else ""
    for priority, what, how in ((1, f"{protocol}|{always} {match}", actions.format(to=to)), (2, f"0x88b5|{always}", "")):
        if how:
            how = f"action {how}"
        protocol, match = what.split("|")
        out = through[0] if through and priority == 1 else to
        tc(f"filter add dev {source} ingress protocol {protocol} prio {priority} flower {policy} {match} {how}",
           f"action mirred egress redirect dev {out}")
    if policy != "skip_hw" and not is_in_hardware(source):
        raise AssertionError(f"not in hardware: {case}")
    for frame in frames_in_tunnel(source) if is_tunnel else frames():
        sender.send(frame)
    came = []
    sender.send(in_tunnel(source, 42, LAST) if is_tunnel else LAST)
    while (frame := receive(receiver))[:len(LAST)] != LAST:
        if not through:
            came.append(frame)
        elif frame[:6] == PEER and frame[12:14] != ARP:  # Hosts at both ends of the wire talk, too.
            came.append(same_everywhere(frame))
    tc(f"filter del dev {source} ingress")
    return came


def main():
    source, to, *what = sys.argv[1:]
    receiver = packet_socket("nw" if what == ["encap"] else "n1")
    failed = 0
    all_cases = [(source, case) for case in CASES]
    if what == ["encap"]:
        all_cases = [(source, ("ip", "src_ip 10.9.0.0/24", f"tunnel_key set {key} pipe"), device) for device, key in ENCAPS]
    elif what == ["tunnels"]:
        all_cases = [(device, case) for device in PORTS for case in TUNNELS]
        all_cases += [("geneve0", case) for case in OPTIONS]
    sender = packet_socket("nw" if what == ["tunnels"] else "n0")
    for source, case, *through in all_cases:
        ports = source, to, *through
        hardware = run(case, "" if what == ["tunnels"] else "skip_sw", ports, sender, receiver)
        time.sleep(0.05)
        software = run(case, "skip_hw", ports, sender, receiver)
        if software and hardware == software:  # No case is without any.
            print("the same:", len(software), "frames:", source, *case)
            continue
        failed += 1
        print("FAILED:", source, *case)
        for name, ours, others in (("card", hardware, software), ("software", software, hardware)):
            for frame in [frame for frame in ours if frame not in others][:4]:
                print(f"  only of {name}:", frame.hex())
        print(" ", len(hardware), "and", len(software), "frames")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
