#!/usr/bin/python3
"""Judges a capture of RoCE or InfiniBand traffic with tools that are not ours: tshark decodes every packet to UDP port
4791, every frame of type 0x8915 and every packet with an LRH, and must find none malformed; the ICRC of each is
computed again, by zlib and, over IPv4, by scapy's RoCE layer. Prints how many packets of each opcode there are. Status
1 if there is a fault."""

import argparse
import collections
import json
import subprocess
import sys

from scapy.contrib.roce import BTH
from scapy.layers.inet import IP
from scapy.packet import raw

import roce

FIELDS = ("bth.opcode", "bth.se", "bth.m", "bth.padcnt", "bth.tver", "bth.p_key", "bth.destqp",
          "bth.a", "bth.psn", "deth.q_key", "deth.srcqp", "reth.va", "reth.r_key", "reth.dmalen",
          "atomiceth.swapdt", "atomiceth.cmpdt", "aeth.syndrome", "aeth.msn",
          "atomicacketh.origremdt", "immdt", "ieth")
BYTE_FIELDS = ("immdt", "ieth")  # tshark prints them as hexadecimal digits without 0x.
# Protocols above InfiniBand that tshark tries for every payload. They accept some short payloads,
# and then report them as malformed.
PAYLOAD_GUESSERS = ("fcoib", "infiniband.eoib", "infiniband_sdp", "iser", "lnet", "nvme-rdma", "rpcordma",
                    "smb_direct", "smc")
EXPERT_ERROR = 0x800000  # PI_ERROR.
# scapy takes a millisecond per packet; zlib checks every packet, so a sample is enough.
SCAPY_PACKETS_PER_OPCODE = 100
FAULTS_SHOWN = 20


def run_tshark(path, which, *fields):
    """A line for each packet that the filter takes, with these fields."""
    command = ["tshark", "-r", path, "-Y", which, "-T", "fields", "-E", "separator=/t", "-E", "occurrence=f",
               "--disable-heuristic", "eth_over_ib", "-o", "udp.ignore_ipv6_zero_checksum:TRUE"]  # Annex A17.4.5.3.
    for guesser in PAYLOAD_GUESSERS:
        command += ["--disable-protocol", guesser]
    for field in fields:
        command += ["-e", field]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True).stdout


def expert_errors(path):
    """What tshark's experts call an error, a line each."""
    for line in run_tshark(path, f"_ws.expert.severity == {EXPERT_ERROR}", "frame.number", "_ws.expert.message").splitlines():
        yield "frame {} is an error, says tshark: {}".format(*line.split("\t", 1))


def tshark(path):
    """Returns what tshark decodes: frame number to its fields, with the opcode's name in `info`."""
    which = (f"(udp.dstport == {roce.ROCE_PORT} || eth.type == {roce.ROCE_V1_ETHERTYPE} || infiniband.lrh)"
             " && !icmp && !icmpv6")
    output = run_tshark(path, which, "frame.number", "_ws.malformed", "_ws.col.Info",
                        *(f"infiniband.{field}" for field in FIELDS))
    frames = {}
    for line in output.splitlines():
        number, malformed, info, *values = line.split("\t")
        fields = {name: int(value, 16 if name in BYTE_FIELDS else 0)
                  for name, value in zip(FIELDS, values) if value}
        frames[int(number)] = {"malformed": malformed != "", "info": info, "fields": fields}
    return frames


def scapy_icrc(datagram):
    """Returns the last four bytes of the packet as scapy's RoCE layer builds it."""
    packet = IP(datagram.ip)
    packet[BTH].icrc = None
    return raw(packet)[-roce.ICRC_BYTES:]


def datagram_faults(datagram, with_scapy):
    """Returns the faults in one datagram's lengths and ICRC."""
    if len(datagram.ip) > roce.IP_PACKET_MAX:
        return ["is longer than any RoCE packet: captured before it was segmented? "
                "(ethtool -K DEVICE tx-udp-segmentation off)"]
    if not datagram.is_whole:
        return ["was not captured whole"]
    if len(datagram.packet) < roce.BTH_BYTES + roce.ICRC_BYTES:
        return ["is too short for a BTH and an ICRC"]
    faults = []
    if isinstance(datagram, roce.InfinibandPacket) and roce.vcrc(datagram.ip[:-roce.VCRC_BYTES]) != datagram.vcrc:
        faults.append(f"has VCRC {datagram.vcrc.hex()}, right is {roce.vcrc(datagram.ip[:-roce.VCRC_BYTES]).hex()}")
    if roce.icrc(datagram) != datagram.icrc:
        faults.append(f"has ICRC {datagram.icrc.hex()}, right is {roce.icrc(datagram).hex()}")
    if with_scapy and scapy_icrc(datagram) != datagram.icrc:
        faults.append(f"has ICRC {datagram.icrc.hex()}, scapy's is {scapy_icrc(datagram).hex()}")
    return faults


def judge(path):
    """Returns faults as lines, opcode counts by tshark's name, tshark's fields in the order of the file, and the
    number of packets that scapy judged."""
    frames = tshark(path)
    faults = list(expert_errors(path))
    counts = collections.Counter()
    fields = []
    by_scapy = collections.Counter()
    for datagram in roce.read(path):
        frame = frames.get(datagram.number)
        if frame is None or "bth.opcode" not in frame["fields"]:
            faults.append(f"frame {datagram.number}: tshark sees no BTH")
            continue
        opcode = frame["fields"]["bth.opcode"]
        name = frame["info"].split("QP=")[0].strip()
        counts[opcode, name] += 1
        fields.append(frame["fields"])
        with_scapy = datagram.is_ipv4 and by_scapy[opcode] < SCAPY_PACKETS_PER_OPCODE
        by_scapy[opcode] += with_scapy
        found = datagram_faults(datagram, with_scapy)
        if frame["malformed"]:
            found.append("is malformed, says tshark")
        if name.startswith("Unknown"):
            found.append("has an opcode that tshark does not know")
        faults += [f"frame {datagram.number} ({name}) {fault}" for fault in found]
    if not fields:
        faults.append("no packet of RoCE or InfiniBand")
    return faults, counts, fields, by_scapy.total()


def unexpected(fields, expected):
    """Returns the differences between what tshark decoded and what the sender meant."""
    if len(fields) != len(expected):
        yield f"{len(fields)} packets, expected {len(expected)}"
    for number, (seen, meant) in enumerate(zip(fields, expected), 1):
        name = meant["name"]
        for field in FIELDS:
            if seen.get(field) != meant.get(field):
                yield f"packet {number} ({name}): {field} is {seen.get(field)}, " \
                      f"expected {meant.get(field)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("capture", help="pcap or pcapng file")
    parser.add_argument("--expect", help="JSON file: the fields of each packet in order")
    options = parser.parse_args()
    faults, counts, fields, by_scapy = judge(options.capture)
    if options.expect:
        with open(options.expect, encoding="utf-8") as file:
            faults += unexpected(fields, json.load(file))
    for (opcode, name), count in sorted(counts.items()):
        print(f"{opcode:#04x}  {name:<34} {count:>8}")
    print(f"{len(fields)} packets, ICRC of {by_scapy} compared with scapy's, {len(faults)} faults")
    for fault in faults[:FAULTS_SHOWN]:
        print(fault)
    if len(faults) > FAULTS_SHOWN:
        print(f"and {len(faults) - FAULTS_SHOWN} more")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
