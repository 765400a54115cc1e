#!/usr/bin/env python3
"""RoCE v2 packets that a connected queue pair must drop, however much their sender knows (queue pair number, PSN,
port), while the queue pair is used: those of a stranger's address, and those of the peer's address that are not of its
connection: of other services, unknown opcodes, other partitions, a wrong version, a wrong ICRC, truncated or padded
wrongly, answers to what was answered."""

import socket
import struct
import sys

from kit import (SKIPPED, Failure, are_installed, enter_user_namespace, option_parser, start_rping, two_hosts,
                 wait_until)
import roce
from forger import Forger

SECONDS_MAX = 100
PACKETS_MIN = 10_000  # Of each kind.
BYTES_MAX = 1400  # Of a packet on the cable; larger ones are datagrams that the kernel segments later.
STRANGERS = {4: "10.77.0.99", 6: "fd77::99"}
ACKNOWLEDGE = 0x11
SEND_ONLY = 0x04
WRITE_ONLY = 0x0A
NAK_INVALID_REQUEST = struct.pack("!I", 0x61 << 24)
NAK_REMOTE_ACCESS = struct.pack("!I", 0x62 << 24)
ACK = struct.pack("!I", 0x1F << 24)
RETH = struct.pack("!QII", 0x1000, 0x1234, 8)


class Seen:
    """A packet of the connection, as hosts on the network can see it."""

    def __init__(self, ip):
        version = ip[0] >> 4
        family, addresses, udp = ((socket.AF_INET, ip[12:20], 20) if version == 4
                                  else (socket.AF_INET6, ip[8:40], 40))
        half = len(addresses) // 2
        self.version = version
        self.source = socket.inet_ntop(family, addresses[:half])
        self.destination = socket.inet_ntop(family, addresses[half:])
        self.source_port, port = struct.unpack_from("!HH", ip, udp)
        self.is_roce = ip[9 if version == 4 else 6] == socket.IPPROTO_UDP and port == roce.PORT
        self.content = ip[udp + 8:-4]
        self.is_connected = False
        if self.is_roce and len(self.content) >= roce.BTH_BYTES:
            self.opcode, _, _, self.qpn, psn = struct.unpack_from("!BBHII", self.content)
            self.psn = psn & 0xFFFFFF
            self.is_connected = self.opcode < roce.SERVICES["uc"]


def of_a_stranger(seen):
    """Packets that would end or deceive the connection if the peer had sent them."""
    for psn in (seen.psn, seen.psn + 1):
        yield roce.bth(ACKNOWLEDGE, seen.qpn, psn) + NAK_INVALID_REQUEST
        yield roce.bth(ACKNOWLEDGE, seen.qpn, psn) + ACK
        yield roce.bth(SEND_ONLY, seen.qpn, psn, acknowledge=True) + b"forged!!"
        yield roce.bth(WRITE_ONLY, seen.qpn, psn) + RETH + b"forged!!"
    yield seen.content


def of_no_connection(seen):
    """Packets that are invalid from any sender: their content, and damage to their ICRC."""
    for psn in (seen.psn, seen.psn + 1):
        for service in ("uc", "ud", "cnp", "xrc"):
            for operation in (1, SEND_ONLY, WRITE_ONLY):
                yield roce.bth(roce.SERVICES[service] + operation, seen.qpn, psn) + b"forged" * 8, 0
        for opcode in (0x19, 0x1F, 0xC4, 0xE0, 0xFF):
            yield roce.bth(opcode, seen.qpn, psn) + b"forged" * 8, 0
        for content in (NAK_INVALID_REQUEST, NAK_REMOTE_ACCESS):
            yield roce.bth(ACKNOWLEDGE, seen.qpn, psn, pkey=0x7FFE) + content, 0
            yield roce.bth(ACKNOWLEDGE, seen.qpn, psn, version=1) + content, 0
            yield roce.bth(ACKNOWLEDGE, seen.qpn, psn) + content, 0x01000000
            yield roce.bth(ACKNOWLEDGE, seen.qpn, psn - 0x400000) + content, 0
        yield roce.bth(ACKNOWLEDGE, seen.qpn, psn), 0
        yield roce.bth(WRITE_ONLY, seen.qpn, psn) + RETH[:8], 0
        yield roce.bth(SEND_ONLY, seen.qpn, psn, pad=3), 0
        yield roce.bth(SEND_ONLY, seen.qpn ^ 0x800000, psn) + b"forged!!", 0
    yield b"", 0
    yield roce.bth(SEND_ONLY, seen.qpn, seen.psn)[:7], 0


def forging(packets_about):
    """Sends packets to the destination of a connected queue pair's packets."""
    def forge(forger, ip):
        try:
            seen = Seen(ip)
        except (ValueError, struct.error):
            return  # No IP packet.
        # A forged packet for another queue pair would be answered with one for the right queue
        # pair.
        if not seen.is_connected or len(seen.content) > BYTES_MAX or b"forged" in seen.content:
            return
        for packet in packets_about(seen):
            forger.send(seen.destination, packet)
    return forge


def strange_packets(seen):
    for content in of_a_stranger(seen):
        yield roce.roce_packet(STRANGERS[seen.version], seen.source_port, seen.destination, content)


def meaningless_packets(seen):
    for content, damage in of_no_connection(seen):
        yield roce.roce_packet(seen.source, seen.source_port, seen.destination, content, damage)


# Kinds of packets, and the counters that count them.
KINDS = ((strange_packets, ("dropped_no_qp",)),
         (meaningless_packets, ("malformed", "icrc_errors", "dropped_no_qp", "pkey_violations")))


def are_counted(hosts, counters):
    """Returns true if both programs have counted dropped packets for each of the reasons."""
    counted = [program["counters"] for node in ("a", "b") for program in hosts.testbed.status(node)]
    return len(counted) == 2 and all(one[name] > 0 for one in counted for name in counters)


def attack(hosts, address, packets_about, counters):
    with Forger(hosts, forging(packets_about)) as forger:
        programs = start_rping(hosts, address)
        ended = lambda: any(program.ended() for program in programs)
        wait_until(lambda: ended() or (forger.sent > PACKETS_MIN and are_counted(hosts, counters)), SECONDS_MAX,
                   f"{PACKETS_MIN} packets, and both programs to count {', '.join(counters)}")
        if ended():
            raise Failure(f"rping has ended among {forger.sent} {packets_about.__name__}")
        for program in programs:
            program.kill()
    print(f"passed: to {address} among {forger.sent} {packets_about.__name__}", flush=True)


def main():
    options = option_parser(__doc__).parse_args()
    if not are_installed("rping"):
        return SKIPPED
    enter_user_namespace()
    with two_hosts(options) as hosts:
        for address in (hosts.ipv4["a"], hosts.ipv6["a"]):
            for packets_about, counters in KINDS:
                attack(hosts, address, packets_about, counters)
    return 0


if __name__ == "__main__":
    sys.exit(main())
