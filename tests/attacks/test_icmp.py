#!/usr/bin/env python3
"""Forged ICMP errors of every kind, from a host that need not be on the path, end no connection and keep none from
being made: over RoCE v2 and iWARP, IPv4 and IPv6, quoting what either side sends, while connections are made and
used.

The forger is given more than a stranger has: it quotes real packets, TCP sequence numbers included. Only what
makes a TCP connection (a SYN) it quotes with a number of its own, as the kernel believes whoever knows that.

Not forced: an error that comes between a TCP connection's last packet and the program's look at its socket, which asks
getpeername first (src/connect/mpa_service.cpp). It takes luck to hit."""

import json
import socket
import struct
import subprocess
import sys

from kit import SKIPPED, Failure, are_installed, enter_user_namespace, option_parser, rping, two_hosts
import roce
from forger import Forger
from packets import icmp_packet, udp_packet

TCP_SYN = 2
ATTEMPTS = 20
ROUTERS = {4: "10.77.0.254", 6: "fd77::254"}

# Type, code, word after the checksum.
UNREACHABLE_KINDS = [(3, code, 0) for code in (*range(4), *range(5, 16))]
TOO_BIG_KINDS = [(3, 4, mtu) for mtu in (0, 68, 552, 1400)]
REDIRECT_KINDS = [(5, code, int.from_bytes(socket.inet_aton("10.77.0.253"), "big")) for code in range(4)]
OTHER_KINDS = [(4, 0, 0), (11, 0, 0), (11, 1, 0), (12, 0, 0), (12, 1, 0), (12, 2, 0)]
KINDS = {
    4: UNREACHABLE_KINDS + TOO_BIG_KINDS + REDIRECT_KINDS + OTHER_KINDS,
    6: [(1, code, 0) for code in range(8)] + [(2, 0, mtu) for mtu in (0, 68, 1280, 1400)]
       + [(3, 0, 0), (3, 1, 0), (4, 0, 0), (4, 1, 0), (4, 2, 0)]}


def quotation(packet):
    """Returns what an ICMP error quotes of an IP packet, with a forged number of a SYN; None for an ICMP error
    itself."""
    version = packet[0] >> 4
    header_bytes = 20 if version == 4 else 40
    protocol = packet[9] if version == 4 else packet[6]
    if protocol not in (socket.IPPROTO_UDP, socket.IPPROTO_TCP):
        return None
    quoted = packet[:header_bytes + 28]
    if protocol == socket.IPPROTO_TCP and quoted[header_bytes + 13] & TCP_SYN:
        at = header_bytes + 4
        quoted = quoted[:at] + struct.pack("!I", 0x12345678) + quoted[at + 4:]
    return quoted


def answer(forger, packet):
    """Sends every ICMP error to the sender of the packet."""
    version = packet[0] >> 4
    quoted = quotation(packet) if version in KINDS else None
    if not quoted:
        return
    source = socket.inet_ntop(*(socket.AF_INET, packet[12:16]) if version == 4
                              else (socket.AF_INET6, packet[8:24]))
    for kind, code, word in KINDS[version]:
        forger.send(source, icmp_packet(ROUTERS[version], source, kind, code, word, quoted))


def believing_hosts(hosts, addresses):
    """Returns the hosts that have accepted forged packets, by the path MTU in the kernel's table of routes."""
    believing = set()
    for node, peer in (("a", "b"), ("b", "a")):
        enter = ["nsenter", "--net", "--target", str(hosts.pids[node]), "--"] if hosts.pids[node] else []
        route = json.loads(subprocess.run([*enter, "ip", "-json", "route", "get", addresses[peer]], check=True,
                                          capture_output=True, text=True).stdout)
        if any(metric.get("mtu", 1500) <= 1400 for metric in route[0].get("metrics", ())):
            believing.add(node)
    return believing


def attack(options, protocol):
    with two_hosts(options, VERBATIM_PROTOCOL=protocol) as hosts:
        for addresses in (hosts.ipv4, hosts.ipv6):
            with Forger(hosts, answer) as forger:
                # A stranger cannot know a source port, except that of the agents' sockets.
                for node, peer in (("a", "b"), ("b", "a")):
                    answer(forger, udp_packet(addresses[node], roce.PORT, addresses[peer], roce.PORT, b"\0" * 20))
                for rounds in (1, 1, 1, 100):
                    rping(hosts, addresses["a"], rounds)
                # On a busy machine the forger comes too late for TCP, whose windows have gone on.
                for _ in range(ATTEMPTS):
                    if len(believing := believing_hosts(hosts, addresses)) == len(hosts.pids):
                        break
                    rping(hosts, addresses["a"], 100)
                else:
                    raise Failure(f"the ICMP errors have lowered the path MTU on {believing} only ({protocol})")
            print(f"passed: {protocol} to {addresses['a']} among {forger.sent} ICMP errors", flush=True)


def main():
    options = option_parser(__doc__).parse_args()
    if not are_installed("rping"):
        return SKIPPED
    enter_user_namespace()
    for protocol in ("roce", "iwarp"):
        attack(options, protocol)
    return 0


if __name__ == "__main__":
    sys.exit(main())
