"""IP packets made by hand, and raw sockets to send them from a host of the test."""

import contextlib
import ctypes
import ipaddress
import os
import socket
import struct
import sys
import threading

from testbed import SKIPPED

CLONE_NEWNET = 0x40000000


@contextlib.contextmanager
def inside(pid):
    """Runs in the network namespace of process `pid` (None: this one's); a socket made here stays in it."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/proc/{threading.get_native_id()}/ns/net", "rb") as own:
        if pid is not None:
            with open(f"/proc/{pid}/ns/net", "rb") as other:
                if libc.setns(other.fileno(), CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), "setns")
        try:
            yield
        finally:
            if pid is not None and libc.setns(own.fileno(), CLONE_NEWNET) != 0:
                os.abort()


def raw_socket(pid, *kind):
    """Returns socket.socket(*kind) in the namespace of process `pid`; skips the test if raw sockets are refused."""
    try:
        with inside(pid):
            return socket.socket(*kind)
    except PermissionError:
        print("skipped: no raw sockets for this user")
        sys.exit(SKIPPED)


class Attacker:
    """Sends IP packets with any source address from the host in the namespace of process `pid`."""

    def __init__(self, pid):
        self._by_version = {
            4: raw_socket(pid, socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW),
            6: raw_socket(pid, socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW)}

    def send(self, packet):
        """`packet` begins with its IP header."""
        version = packet[0] >> 4
        at = slice(16, 20) if version == 4 else slice(24, 40)
        destination = str(ipaddress.ip_address(packet[at]))
        self._by_version[version].sendto(packet, (destination, 0))


def address_bytes(text):
    return ipaddress.ip_address(text).packed


def checksum(data):
    """Returns the Internet checksum (RFC 1071)."""
    data = data + b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ip_packet(source, destination, protocol, payload):
    """Returns an IPv4 or IPv6 packet, depending on the addresses. Don't-fragment is set; RoCE's ICRC needs
    identification 0."""
    source, destination = address_bytes(source), address_bytes(destination)
    if len(source) == 16:
        return struct.pack("!IHBB16s16s", 6 << 28, len(payload), protocol, 64, source, destination) + payload
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 0, 0x4000, 64, protocol, 0,
                         source, destination)
    return header[:10] + struct.pack("!H", checksum(header)) + header[12:] + payload


def checked(source, destination, protocol, payload, at):
    """Returns `payload` with its checksum, which covers the pseudo-header, written at `at`."""
    source, destination = address_bytes(source), address_bytes(destination)
    pseudo = source + destination + struct.pack("!IHBB", len(payload), 0, 0, protocol)
    return payload[:at] + struct.pack("!H", checksum(pseudo + payload)) + payload[at + 2:]


def udp_packet(source, source_port, destination, destination_port, payload):
    header = struct.pack("!HHHH", source_port, destination_port, 8 + len(payload), 0)
    return ip_packet(source, destination, socket.IPPROTO_UDP,
                     checked(source, destination, socket.IPPROTO_UDP, header + payload, 6))


def icmp_packet(source, destination, kind, code, word, quoted):
    """Returns an ICMP error (ICMPv6 between IPv6 addresses). `word`: between its checksum and the quoted packet."""
    message = struct.pack("!BBHI", kind, code, 0, word) + quoted
    if ":" in source:
        return ip_packet(source, destination, socket.IPPROTO_ICMPV6,
                         checked(source, destination, socket.IPPROTO_ICMPV6, message, 2))
    message = message[:2] + struct.pack("!H", checksum(message)) + message[4:]
    return ip_packet(source, destination, socket.IPPROTO_ICMP, message)
