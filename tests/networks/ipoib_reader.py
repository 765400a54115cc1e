#!/usr/bin/env python3
"""Reads captures of IP over InfiniBand, written from RFC 4391, 4392 and 4755 (and the IBA's headers) alone: all that a host
sends and receives must be known and agree. Prints how many there were of each kind; an unknown or inconsistent packet is an
error. Shares nothing with the product."""

import collections
import ipaddress
import struct
import sys

ERF_INFINIBAND = (197, 0x15)  # Endace's record format in pcapng; its type of InfiniBand.
IPV4, ARP, IPV6 = 0x0800, 0x0806, 0x86DD
UD_SEND, RC_SENDS, RC_ACK = 0x64, {0: "first", 1: "middle", 2: "last", 4: "only"}, 0x11
MULTICAST_QP = 0xFFFFFF
HARDWARE_INFINIBAND = 32
SERVICE_OF_RFC, SERVICE_OF_LINUX = 0x01, 0x10
DATAGRAM_BYTES = 2048
CONNECTED_BYTES = 65520 + 4


class Wrong(Exception):
    """What a packet has and may not have."""


def expect(holds, *words):
    if not holds:
        raise Wrong(" ".join(str(word) for word in words))


def checksum(*parts):
    data = b"".join(parts)
    total = sum(struct.unpack(f">{(len(data) + 1) // 2}H", data + b"\0" * (len(data) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def packets_of(path):
    """InfiniBand packets of a pcapng file, from the LRH to the VCRC."""
    with open(path, "rb") as file:
        data = file.read()
    at, links = 0, []
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        body = data[at + 8:at + length - 4]
        at += length
        if kind == 1:
            links.append(struct.unpack_from("<H", body)[0])
        if kind != 6:
            continue
        interface, _, _, captured, _ = struct.unpack_from("<IIIII", body)
        record = body[20:20 + captured]
        expect((links[interface], record[8]) == ERF_INFINIBAND, "a record that is none of InfiniBand")
        yield record[16:]


class Packet:
    """LRH, GRH, BTH, DETH and payload (IBA 5.2)."""

    def __init__(self, data):
        lanes, self.dlid, words, self.slid = struct.unpack_from(">HHHH", data)
        expect(len(data) == (words & 0x7FF) * 4 + 2, "length of the LRH")
        at, self.sgid, self.dgid = 8, None, None
        if lanes & 3 == 3:
            version, rest, following = struct.unpack_from(">IHB", data, at)
            expect(version >> 28 == 6 and following == 0x1B and rest == len(data) - 50, "GRH")
            self.sgid, self.dgid = data[at + 8:at + 24], data[at + 24:at + 40]
            at += 40
        else:
            expect(lanes & 3 == 2, "no transport of InfiniBand")
        self.opcode, flags, self.pkey, self.qp, self.psn = struct.unpack_from(">BBHII", data, at)
        self.qp, self.psn, at = self.qp & 0xFFFFFF, self.psn & 0xFFFFFF, at + 12
        self.qkey = self.source = None
        if self.opcode >> 5 == 3:
            self.qkey, self.source = struct.unpack_from(">II", data, at)
            at += 8
        self.payload = data[at:len(data) - 6 - (flags >> 4 & 3)]


class Address(collections.namedtuple("Address", "flags qp gid")):
    """RFC 4391, 9.1.1: flags, queue pair, GID. RFC 4755, 3.1: 0x80 says RC, 0x40 UC."""

    @staticmethod
    def of(data):
        expect(data[0] & 0x3F == 0, "reserved flags of a hardware address:", data.hex())
        return Address(data[0], int.from_bytes(data[1:4], "big"), data[4:20])


class Reader:
    """One file: who is who, learnt as it goes on."""

    def __init__(self):
        self.seen = collections.Counter()
        self.addresses = {}                          # IP to Address, as last said by its owner.
        self.qkeys = set()
        self.ports = {}                              # GID to LID.
        self.connections = {}                        # (LID, queue pair) to what it takes.
        self.asked = {}                              # Communication id and LID of a REQ to its bytes.
        self.parts = {}                              # (LID, queue pair) to a message that has begun.

    def read(self, path):
        for number, data in enumerate(packets_of(path), 1):
            try:
                self.on_packet(Packet(data))
            except (Wrong, struct.error, IndexError) as error:
                raise Wrong(f"packet {number}: {error!r}") from error

    def on_packet(self, packet):
        if packet.sgid and packet.slid and packet.sgid[:2] == b"\xfe\x80":
            expect(self.ports.setdefault(packet.sgid, packet.slid) == packet.slid, "one GID at two LIDs")
        if packet.opcode == UD_SEND and packet.qp in (0, 1):
            return self.on_management(packet)
        if packet.opcode == UD_SEND:
            return self.on_datagram(packet)
        return self.on_connected(packet)

    # Connections: RFC 4755, 3.4 to 3.6, by messages of the communication manager (IBA 12.6).
    def on_management(self, packet):
        mad = packet.payload
        if mad[1] != 7:
            self.seen[f"management class {mad[1]:#x}"] += 1
            return
        attribute, body = struct.unpack_from(">H", mad, 16)[0], mad[24:]
        if attribute == 0x10:  # REQ
            service, queue_pair = body[8:16], int.from_bytes(body[32:35], "big")
            expect(service[0] in (SERVICE_OF_RFC, SERVICE_OF_LINUX) and not any(service[1:5]), "service id", service.hex())
            self.on_offer(packet, body[140:], body[0:4], queue_pair)
            wanted = int.from_bytes(service[5:], "big")
            expect(any(wanted == one.qp for one in self.addresses.values()), "service of an unknown queue pair", hex(wanted))
            self.seen["connection asked for"] += 1
        elif attribute == 0x13:  # REP
            self.on_offer(packet, body[36:], body[4:8], int.from_bytes(body[12:15], "big"))
            self.seen["connection accepted"] += 1
        else:
            self.seen[f"management of connections {attribute:#x}"] += 1

    def on_offer(self, packet, private, number, queue_pair):
        datagrams, takes = struct.unpack_from(">II", private)
        expect(datagrams >> 24 == 0, "reserved byte of the private data")
        expect(any(datagrams == one.qp for one in self.addresses.values()), "a connection of an unknown interface", hex(datagrams))
        expect(4 < takes <= CONNECTED_BYTES, "receive MTU", takes)
        self.asked.setdefault((packet.slid, number), takes)
        self.connections[packet.slid, queue_pair] = takes

    def on_connected(self, packet):
        if packet.opcode == RC_ACK:
            self.seen["acknowledgement"] += 1
            return
        expect(packet.opcode in RC_SENDS, "opcode", hex(packet.opcode))
        expect((packet.dlid, packet.qp) in self.connections, "no connection with queue pair", hex(packet.qp))
        place = RC_SENDS[packet.opcode]
        key = packet.dlid, packet.qp
        if place in ("first", "only"):
            self.parts[key] = (packet.psn, b"")
        psn, message = self.parts[key]
        if packet.psn != psn:
            self.seen["sent again"] += 1
            return
        message += packet.payload
        self.parts[key] = ((psn + 1) & 0xFFFFFF, message)
        if place in ("last", "only"):
            expect(len(message) <= self.connections[key], "longer than its peer takes")
            self.seen["connected"] += 1
            kind, destination = self.on_frame(message, packet)
            expect(kind in (IPV4, IPV6) and not destination.is_multicast, "not for a connection")

    # Datagrams: RFC 4391, 4 to 7.
    def on_datagram(self, packet):
        is_group = packet.dgid is not None and packet.dgid[0] == 0xFF
        expect(len(packet.payload) <= DATAGRAM_BYTES, "longer than the link's MTU")
        expect(is_group == (packet.qp == MULTICAST_QP) == (0xC000 <= packet.dlid < 0xFFFF), "neither group nor port")
        self.qkeys.add(packet.qkey)
        expect(len(self.qkeys) == 1, "another Q_Key than the broadcast group's")
        expect(packet.pkey & 0x8000, "sent by a limited member")
        kind, destination = self.on_frame(packet.payload, packet)
        if is_group:
            self.expect_group(packet, kind, destination)
            self.seen["to a group"] += 1
        elif destination is not None and destination in self.addresses:
            expect(self.addresses[destination].qp == packet.qp, "for", destination, "to another queue pair")

    @staticmethod
    def expect_group(packet, kind, destination):
        """RFC 4391, 4: the group of an IP address."""
        gid, pkey = packet.dgid, struct.pack(">H", packet.pkey | 0x8000)
        expect(gid[0] == 0xFF and gid[1] >> 4 == 1, "flags of the group")
        broadcast = b"\x40\x1b" + pkey + bytes(6) + b"\xff" * 4
        if kind == ARP or kind == IPV4 and not destination.is_multicast:
            expected = broadcast
        elif kind == IPV4:
            low = int.from_bytes(destination.packed, "big") & 0x0FFFFFFF
            expected = b"\x40\x1b" + pkey + bytes(6) + low.to_bytes(4, "big")
        else:
            expect(destination.is_multicast, "a host of IPv6 at a group")
            expected = b"\x60\x1b" + pkey + destination.packed[-10:]
        expect(gid[2:] == expected, "group", gid.hex(), "for", destination)

    def on_frame(self, frame, packet):
        """RFC 4391, 6: four bytes, of which the last two are zeros."""
        kind, reserved = struct.unpack_from(">HH", frame)
        expect(reserved == 0, "reserved bytes of the encapsulation")
        expect(kind in (IPV4, IPV6, ARP), "protocol", hex(kind))
        if kind == ARP:
            return kind, self.on_arp(frame[4:], packet)
        return kind, (self.on_ipv4 if kind == IPV4 else self.on_ipv6)(frame[4:], packet)

    def learn(self, address, hardware, packet):
        expect(hardware.qp == packet.source, address, "says another queue pair than it sends by")
        expect(self.ports.setdefault(hardware.gid, packet.slid) == packet.slid, address, "says another port than it sends by")
        self.addresses[address] = hardware

    def on_arp(self, arp, packet):
        hardware, protocol, length, width, operation = struct.unpack_from(">HHBBH", arp)
        expect((hardware, protocol, length, width) == (HARDWARE_INFINIBAND, IPV4, 20, 4), "types of ARP")
        expect(len(arp) == 56 and operation in (1, 2), "ARP of", len(arp), "bytes, operation", operation)
        own, target = ipaddress.ip_address(arp[28:32]), ipaddress.ip_address(arp[52:56])
        self.learn(own, Address.of(arp[8:28]), packet)
        if operation == 2 and target in self.addresses and target != own:
            expect(self.addresses[target] == Address.of(arp[32:52]), "an answer to another than", target)
        self.seen["ARP announcement" if own == target else ("ARP request", "ARP reply")[operation - 1]] += 1

    def on_ipv4(self, ip, packet):
        length, destination = struct.unpack_from(">H", ip, 2)[0], ipaddress.ip_address(ip[16:20])
        header = (ip[0] & 15) * 4
        expect(ip[0] >> 4 == 4 and length == len(ip), "length of IPv4:", length, "of", len(ip))
        expect(checksum(ip[:header]) == 0, "checksum of IPv4")
        is_part = struct.unpack_from(">H", ip, 6)[0] & 0x3FFF
        self.on_transport(ip[9], ip[header:], ip[12:20], is_part, packet)
        return destination

    def on_ipv6(self, ip, packet):
        length, protocol, hops = struct.unpack_from(">HBB", ip, 4)
        expect(ip[0] >> 4 == 6 and length == len(ip) - 40, "length of IPv6:", length, "of", len(ip) - 40)
        payload, is_part = ip[40:], protocol == 44
        if protocol == 0:  # Hop-by-hop options, before MLD's reports.
            protocol, payload = payload[0], payload[(payload[1] + 1) * 8:]
        self.on_transport(protocol, payload, ip[8:40], is_part, packet)
        if protocol == 58 and payload[0] in (135, 136):
            expect(hops == 255, "hop limit of discovery")
            self.on_discovery(payload, ip[8:24], packet)
        return ipaddress.ip_address(ip[24:40])

    def on_transport(self, protocol, payload, addresses, is_part, packet):
        name = {1: "ICMP", 2: "IGMP", 6: "TCP", 17: "UDP", 58: "ICMPv6"}.get(protocol, f"protocol {protocol}")
        self.seen["fragment" if is_part else name] += 1
        if is_part or protocol not in (1, 2, 6, 17, 58):
            return
        pseudo = addresses + struct.pack(">II", len(payload), protocol)
        if protocol == 17 and payload[6:8] == b"\0\0" and len(addresses) == 8:
            return
        expect(checksum(b"" if protocol in (1, 2) else pseudo, payload) == 0, "checksum of", name)

    def on_discovery(self, message, source, packet):
        """RFC 4391, 9.2: a hardware address is an option of 24 bytes."""
        kind, target, at = message[0], ipaddress.ip_address(message[8:24]), 24
        while at < len(message):
            option, units = message[at], message[at + 1]
            expect((option, units) == (kind - 134, 3) and message[at + 2:at + 4] == b"\0\0", "an option of discovery")
            hardware = Address.of(message[at + 4:at + 24])
            self.learn(target if kind == 136 else ipaddress.ip_address(source), hardware, packet)
            at += units * 8
        expect(at == len(message), "options of discovery")
        if source[:2] == b"\xfe\x80":  # RFC 4391, 8: made of the port's GUID, with the universal bit.
            guid = bytearray(self.addresses[ipaddress.ip_address(source)].gid[8:])
            guid[0] |= 2
            expect(source[8:] == bytes(guid), "link-local address")
        self.seen["solicitation" if kind == 135 else "advertisement"] += 1


def main():
    for path in sys.argv[1:]:
        reader = Reader()
        try:
            reader.read(path)
        except Wrong as error:
            print(f"{path}: {error}")
            return 1
        for what, count in sorted(reader.seen.items()):
            print(f"{what}: {count}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
