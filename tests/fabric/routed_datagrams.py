#!/usr/bin/env python3
"""Datagrams with a GRH between hosts of two subnets, by verbs.

    routed_datagrams.py receive COUNT                says its GID and queue pair number, then what comes
    routed_datagrams.py send QPN LID[,GID,HOPS]...   sends a datagram to each: to the router's LID"""

import sys

import pyverbs.enums as e
from pyverbs.addr import AH, GID, AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context, get_device_list
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, RecvWR, SendWR

GRH_BYTES = 40
HOP_LIMIT_AT = 7
BYTES = 64
SLOTS, SLOT_BYTES = 8, GRH_BYTES + BYTES
QKEY = 0x11111111


class Endpoint:
    def __init__(self):
        self.context = Context(name=get_device_list()[0].name.decode())
        self.pd = PD(self.context)
        self.cq = CQ(self.context, 64)
        capacity = QPCap(max_send_wr=16, max_recv_wr=16)
        attributes = QPAttr()
        attributes.port_num, attributes.qkey = 1, QKEY
        self.qp = QP(self.pd, QPInitAttr(qp_type=e.IBV_QPT_UD, scq=self.cq, rcq=self.cq, cap=capacity), attributes)
        self.mr = MR(self.pd, SLOTS * SLOT_BYTES, e.IBV_ACCESS_LOCAL_WRITE)

    def completion(self):
        while True:
            count, completions = self.cq.poll(1)
            if count == 1:
                if completions[0].status != e.IBV_WC_SUCCESS:
                    raise SystemExit(f"a completion with status {completions[0].status}")
                return completions[0]

    def receive(self, count):
        for slot in range(count):
            sge = SGE(self.mr.buf + slot * SLOT_BYTES, SLOT_BYTES, self.mr.lkey)
            self.qp.post_recv(RecvWR(num_sge=1, sg=[sge]))
        print(self.context.query_gid(1, 0), self.qp.qp_num, flush=True)
        for slot in range(count):
            completion = self.completion()
            text = self.mr.read(SLOT_BYTES, slot * SLOT_BYTES)
            hops = text[HOP_LIMIT_AT] if completion.wc_flags & e.IBV_WC_GRH else "no GRH"
            print(text[GRH_BYTES:completion.byte_len].rstrip(b"\0").decode(), "hop limit", hops, flush=True)

    def send(self, qpn, way):
        lid, gid, hops = way.split(",")
        route = GlobalRoute(dgid=GID(gid), sgid_index=0, hop_limit=int(hops))
        ah = AH(self.pd, attr=AHAttr(dlid=int(lid), is_global=1, port_num=1, gr=route))
        self.mr.write(way.ljust(BYTES, "\0"), BYTES)
        wr = SendWR(opcode=e.IBV_WR_SEND, num_sge=1, sg=[SGE(self.mr.buf, BYTES, self.mr.lkey)])
        wr.set_wr_ud(ah, qpn, QKEY)
        self.qp.post_send(wr)
        self.completion()


def main():
    endpoint = Endpoint()
    if sys.argv[1] == "receive":
        endpoint.receive(int(sys.argv[2]))
    else:
        for way in sys.argv[3:]:
            endpoint.send(int(sys.argv[2]), way)


if __name__ == "__main__":
    main()
