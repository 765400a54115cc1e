"""RoCE v2 packets made by hand, with their ICRC."""

import struct
import zlib

from packets import udp_packet

PORT = 4791
BTH_BYTES = 12
SERVICES = {"rc": 0x00, "uc": 0x20, "rd": 0x40, "ud": 0x60, "cnp": 0x80, "xrc": 0xa0}


def bth(opcode, qpn, psn, *, pkey=0xFFFF, pad=0, version=0, acknowledge=False):
    """Returns a Base Transport Header."""
    return struct.pack("!BBHII", opcode, 0x40 | pad << 4 | version, pkey, qpn, int(acknowledge) << 31 | psn & 0xFFFFFF)


def icrc(packet):
    """Returns the ICRC of an IP packet without it: fields that routers change count as ones (IBA annex A17.3.3)."""
    masked = bytearray(packet)
    if packet[0] >> 4 == 4:
        masked[1] = masked[8] = masked[10] = masked[11] = 0xFF  # TOS, TTL, checksum.
        transport = 20
    else:
        masked[:4] = b"\x6f\xff\xff\xff"  # Traffic class, flow label.
        masked[7] = 0xFF                  # Hop limit.
        transport = 40
    masked[transport + 6:transport + 8] = b"\xff\xff"  # UDP checksum.
    masked[transport + 8 + 4:transport + 8 + 5] = b"\xff"  # FECN, BECN.
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + masked))


def roce_packet(source, source_port, destination, content, damage=0):
    """Returns a packet. `content` begins with a BTH and is padded. `damage`: bits to flip in the ICRC."""
    # The lengths in the headers include the ICRC.
    whole = udp_packet(source, source_port, destination, PORT, content + b"\0" * 4)
    trailer = int.from_bytes(icrc(whole[:-4]), "big") ^ damage
    return udp_packet(source, source_port, destination, PORT, content + trailer.to_bytes(4, "big"))
