"""What Debian's Open vSwitch with DPDK takes for a frame by its own tables, in processor time of its packet thread: receive,
classify, send. 10,000 flows of 8 masks, as in bench/nic_traffic.h, out of memory (net_pcap) into nothing (net_null)."""

import pathlib
import random
import re
import struct
import time

from setup import DPDK, SetUp

FLOWS, MASKS = 10000, 8
SECONDS = 1.5
TABLES = {"megaflow": ["emc-insert-inv-prob=0"], "signatures": ["emc-insert-inv-prob=0", "smc-enable=true"]}


def checksum(header):
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def frame_of(flow):
    low = bytes((flow >> 16 & 255, flow >> 8 & 255, flow & 255))
    header = struct.pack("!BBHHHBBH", 0x45, 0, 46, 0, 0x4000, 64, 17, 0) + bytes((10,)) + low + bytes((20 + flow % MASKS,)) + low
    header = header[:10] + struct.pack("!H", checksum(header)) + header[12:]
    return bytes((2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0)) + header + struct.pack("!4H", flow & 0xffff, 4791, 26, 0) + bytes(18)


def datapath_flow(flow, source, to):
    """For `dpctl/add-flows`: it matches what the mask of this number has."""
    mask, low = flow % MASKS, f"{flow >> 16 & 255}.{flow >> 8 & 255}.{flow & 255}"
    return (f"in_port({source}),packet_type(ns=0,id=0),eth(src=02:00:00:00:00:02,dst=02:00:00:00:00:01),eth_type(0x0800),"
            f"ipv4(src={f'10.{low}' if mask & 1 else '0.0.0.0/0.0.0.0'},dst={20 + mask}.{low},proto=17,tos=0/0,ttl=64/0,"
            f"frag=no),udp(src={flow & 0xffff if mask & 2 else '0/0'},dst={4791 if mask & 4 else '0/0'}) {to}\n")


def write_traffic(path):
    order = list(range(FLOWS))
    random.Random(7).shuffle(order)
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
        for flow in order:
            frame = frame_of(flow)
            file.write(struct.pack("<4I", 0, 0, len(frame), len(frame)) + frame)


def packet_thread(process):
    for task in pathlib.Path(f"/proc/{process}/task").iterdir():
        if (task / "comm").read_text(encoding="utf-8").startswith("pmd"):
            return task / "schedstat"
    raise RuntimeError("Open vSwitch has no packet thread")


def nanoseconds(build, folder, table):
    setup = SetUp(build)
    setup.up("hw-offload=false", f"dpdk-extra={DPDK.format(1024)}", "pmd-maxsleep=0", *TABLES[table])
    try:
        setup.rules("actions=drop")
        setup.vsctl("add-port", "br0", "out", "--", "set", "Interface", "out", "type=dpdk",
                    "options:dpdk-devargs=net_null0,no-rx=1")
        to = int(re.search(r"port (\d+): out ", setup.appctl("dpctl/show"))[1])
        setup.appctl("revalidator/pause")
        traffic, flows = folder / "traffic", folder / "flows"
        write_traffic(traffic)
        flows.write_text("".join(datapath_flow(flow, to + 1, to) for flow in range(FLOWS)), encoding="utf-8")
        setup.appctl("dpctl/add-flows", str(flows))
        setup.vsctl("--no-wait", "add-port", "br0", "in", "--", "set", "Interface", "in", "type=dpdk",
                    f"options:dpdk-devargs=\"net_pcap0,rx_pcap={traffic},infinite_rx=1\"")
        time.sleep(SECONDS)
        thread = packet_thread(setup.process())
        best = []
        for _ in range(3):
            setup.appctl("dpif-netdev/pmd-stats-clear")
            begin = int(thread.read_text(encoding="utf-8").split()[0])
            time.sleep(SECONDS)
            count = int(re.search(r"Rx packets: *(\d+)", setup.appctl("dpif-netdev/pmd-perf-show"))[1])
            best.append((int(thread.read_text(encoding="utf-8").split()[0]) - begin) / count)
        return min(best)
    finally:
        setup.down()
