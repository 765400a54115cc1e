"""Reads RoCE and InfiniBand packets out of capture files, and computes their CRCs by the words of the specification and
its annexes A16 and A17, in a few lines that share nothing with the code under test."""

import contextlib
import struct
import zlib
from dataclasses import dataclass

from scapy.utils import RawPcapReader

ROCE_PORT = 4791
ROCE_V1_ETHERTYPE = 0x8915
UDP, UDP_BYTES = 17, 8
GRH_BYTES, GRH_NEXT_IBA = 40, 0x1B
ICRC_BYTES = 4
BTH_BYTES = 12
# Largest IP packet with one RoCE packet: IPv6, UDP, BTH, AtomicETH, 4096 bytes, ICRC.
IP_PACKET_MAX = 40 + 8 + 12 + 28 + 4096 + ICRC_BYTES

# Bytes before the IP header, by link type; and the offset of the ethertype, if there is one.
ETHERNET, LINUX_COOKED, LINUX_COOKED_2 = 1, 113, 276
LINK_HEADERS = {ETHERNET: (14, 12), LINUX_COOKED: (16, 14), LINUX_COOKED_2: (20, 0),
                0: (4, None), 12: (0, None), 101: (0, None), 228: (0, None), 229: (0, None)}
VLAN = 0x8100
ERF, ERF_HEADER_BYTES, ERF_TYPE_AT, ERF_INFINIBAND = 197, 16, 8, 21
LRH_BYTES, NEXT_IS_GRH = 8, 3
VCRC_BYTES, VCRC_REFLECTED = 2, 0xD008  # x^16 + x^12 + x^3 + x + 1, the lowest bit first.
ETHERTYPES = (0x0800, 0x86DD, ROCE_V1_ETHERTYPE)


@dataclass
class Datagram:
    """An IP packet to port 4791, from the IP header on; for RoCE v1 from the GRH on, which has the layout of an IPv6
    header."""

    number: int  # The frame's number in the file, from 1, as in tshark.
    ip: bytes
    ip_header_bytes: int
    udp_length: int  # Of the UDP header and the bytes after it, or of the bytes after the GRH.
    has_udp: bool
    is_whole: bool  # All bytes that the headers' lengths count were captured.

    @property
    def is_ipv4(self):
        return self.ip[0] >> 4 == 4

    @property
    def packet(self):
        """BTH to ICRC."""
        start = self.ip_header_bytes + (UDP_BYTES if self.has_udp else 0)
        return self.ip[start:self.ip_header_bytes + self.udp_length]

    @property
    def icrc(self):
        return self.packet[-ICRC_BYTES:]


@dataclass
class InfinibandPacket:
    """From the LRH to the VCRC."""

    number: int
    ip: bytes
    is_ipv4 = False

    @property
    def headers_bytes(self):
        """Before the BTH."""
        return LRH_BYTES + (GRH_BYTES if self.ip[1] & 3 == NEXT_IS_GRH else 0)

    @property
    def is_whole(self):
        words = struct.unpack_from("!H", self.ip, 4)[0] & 0x7FF
        return len(self.ip) == words * 4 + VCRC_BYTES

    @property
    def vcrc(self):
        return self.ip[-VCRC_BYTES:]

    @property
    def packet(self):
        return self.ip[self.headers_bytes:-VCRC_BYTES]

    @property
    def icrc(self):
        return self.packet[-ICRC_BYTES:]

    @property
    def covered(self):
        """What the ICRC covers (IBA 7.8.1): fields that change on the way are ones."""
        covered = bytearray(self.ip[:-VCRC_BYTES - ICRC_BYTES])
        covered[self.headers_bytes + 4] = 0xFF
        if self.headers_bytes == LRH_BYTES:
            covered[0] |= 0xF0
            return covered
        covered[:LRH_BYTES] = b"\xff" * LRH_BYTES
        covered[LRH_BYTES] |= 0x0F
        covered[LRH_BYTES + 1] = covered[LRH_BYTES + 2] = covered[LRH_BYTES + 3] = covered[LRH_BYTES + 7] = 0xFF
        return covered


def vcrc(packet):
    """The VCRC that the packet must have, in its byte order (IBA 7.8.2)."""
    state = 0xFFFF
    for byte in packet:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (VCRC_REFLECTED if state & 1 else 0)
    return struct.pack("<H", state ^ 0xFFFF)


def parse_erf(number, record):
    """Returns the InfiniBand packet in an ERF record, or None."""
    if len(record) < ERF_HEADER_BYTES + LRH_BYTES + BTH_BYTES or record[ERF_TYPE_AT] & 0x7F != ERF_INFINIBAND:
        return None
    return InfinibandPacket(number, record[ERF_HEADER_BYTES:])


def strip_link_header(frame, link_type):
    """Returns the IP packet in a frame and its ethertype, or None."""
    if link_type not in LINK_HEADERS:
        raise ValueError(f"link type {link_type} is not known")
    size, type_at = LINK_HEADERS[link_type]
    ethertype = None
    if type_at is not None:
        if len(frame) < size:
            return None
        ethertype = struct.unpack_from("!H", frame, type_at)[0]
        if ethertype == VLAN:
            ethertype = struct.unpack_from("!H", frame, size + 2)[0]
            size += 4
        if ethertype not in ETHERTYPES:
            return None
    return frame[size:], ethertype


def parse_grh(number, packet):
    """Returns the RoCE v1 packet that begins with this GRH, or None."""
    if len(packet) < GRH_BYTES or packet[0] >> 4 != 6 or packet[6] != GRH_NEXT_IBA:
        return None
    length = struct.unpack_from("!H", packet, 4)[0]
    is_whole = len(packet) >= GRH_BYTES + length
    return Datagram(number, packet[:GRH_BYTES + length], GRH_BYTES, length, False, is_whole)


def parse(number, ip):
    """Returns the datagram in an IP packet if it is for port 4791, else None."""
    if len(ip) < 20:
        return None
    version = ip[0] >> 4
    if version == 4:
        header_bytes, protocol, total = (ip[0] & 15) * 4, ip[9], struct.unpack_from("!H", ip, 2)[0]
    elif version == 6 and len(ip) >= 40:
        header_bytes, protocol, total = 40, ip[6], 40 + struct.unpack_from("!H", ip, 4)[0]
    else:
        return None
    if protocol != UDP or len(ip) < header_bytes + 8:
        return None
    port, udp_length = struct.unpack_from("!HH", ip, header_bytes + 2)
    if port != ROCE_PORT:
        return None
    is_whole = len(ip) >= total == header_bytes + udp_length
    return Datagram(number, ip[:total], header_bytes, udp_length, True, is_whole)


def read(path):
    """Returns every RoCE and InfiniBand packet of a capture file (pcap or pcapng)."""
    with contextlib.closing(RawPcapReader(path)) as reader:
        link_type = getattr(reader, "linktype", None)
        for number, (frame, meta) in enumerate(reader, 1):
            frame_type = getattr(meta, "linktype", link_type)
            found = None if frame_type == ERF else strip_link_header(frame, frame_type)
            if frame_type == ERF:
                datagram = parse_erf(number, frame)
            elif found:
                packet, ethertype = found
                datagram = (parse_grh if ethertype == ROCE_V1_ETHERTYPE else parse)(number, packet)
            else:
                continue
            if datagram:
                yield datagram


def icrc(datagram):
    """Returns the ICRC that the packet must have, in its byte order (annexes A16.5.1, A17.3.3, IBA 7.8.1)."""
    if isinstance(datagram, InfinibandPacket):
        return struct.pack("<I", zlib.crc32(datagram.covered))
    covered = bytearray(datagram.ip[:datagram.ip_header_bytes + datagram.udp_length - ICRC_BYTES])
    after = datagram.ip_header_bytes
    if datagram.is_ipv4:
        covered[1] = covered[8] = covered[10] = covered[11] = 0xFF
    else:
        covered[0] |= 0x0F
        covered[1] = covered[2] = covered[3] = covered[7] = 0xFF
    if datagram.has_udp:
        covered[after + 6] = covered[after + 7] = 0xFF
        after += UDP_BYTES
    covered[after + 4] = 0xFF
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + covered))
