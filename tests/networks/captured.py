"""Packets of RDMA in a capture, of RoCE v2 or InfiniBand, for decoders that share nothing with the product."""

import struct

from ipoib_reader import ERF_INFINIBAND, expect

ETHERNET, RAW_IP, ERF = 1, 101, 197
ETHERTYPES = (0x0800, 0x86DD)
UDP, ROCE_PORT = 17, 4791


class Packet:
    """From whom to whom (an address of IP, or a LID), BTH and what follows."""

    def __init__(self, source, destination, transport):
        self.source, self.destination = source, destination
        self.opcode, flags, _, queue_pair, psn = struct.unpack_from(">BBHII", transport)
        self.queue_pair, self.psn = queue_pair & 0xFFFFFF, psn & 0xFFFFFF
        self.body = transport[12:len(transport) - 4 - (flags >> 4 & 3)]


def packet_of_ip(data):
    version = data[0] >> 4
    header, protocol, names = (data[0] % 16 * 4, data[9], data[12:20]) if version == 4 else (40, data[6], data[8:40])
    if protocol != UDP or struct.unpack_from(">H", data, header + 2)[0] != ROCE_PORT:
        return None
    length = struct.unpack_from(">H", data, header + 4)[0]
    half = len(names) // 2
    return Packet(names[:half], names[half:], data[header + 8:header + length])


def packet_of_infiniband(data):
    lanes, destination, _, source = struct.unpack_from(">HHHH", data)
    return Packet(source, destination, data[8 + (40 if lanes & 3 == 3 else 0):-2])


def frames_of(data):
    """Link type and bytes of each frame of a file, pcapng's or, from little-endian machines, pcap's."""
    at, links = 0, []
    if data[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1"):
        link, at = struct.unpack_from("<H", data, 20)[0], 24
        while at < len(data):
            captured, size = struct.unpack_from("<II", data, at + 8)
            expect(captured == size, "a packet that was cut")
            yield link, data[at + 16:at + 16 + captured]
            at += 16 + captured
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        body = data[at + 8:at + length - 4]
        at += length
        if kind == 1:
            links.append(struct.unpack_from("<H", body)[0])
        if kind == 6:
            interface, _, _, captured, size = struct.unpack_from("<IIIII", body)
            expect(captured == size, "a packet that was cut")
            yield links[interface], body[20:20 + captured]


def packets_of(path):
    """The packets of RDMA in a capture: of RoCE v2 with or without Ethernet's header, or of InfiniBand."""
    with open(path, "rb") as file:
        data = file.read()
    for link, frame in frames_of(data):
        if link == ERF:
            expect((link, frame[8]) == ERF_INFINIBAND, "a record that is none of InfiniBand")
            found = packet_of_infiniband(frame[16:])
        elif link == RAW_IP:
            found = packet_of_ip(frame)
        else:
            expect(link == ETHERNET, "link type", link)
            found = packet_of_ip(frame[14:]) if struct.unpack_from(">H", frame, 12)[0] in ETHERTYPES else None
        if found:
            yield found
