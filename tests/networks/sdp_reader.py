#!/usr/bin/env python3
"""Reads captures of the Sockets Direct Protocol, written from annex A4 of the InfiniBand specification alone: follows both
directions of each connection, and an end that breaks the annex is an error. Prints how many messages there were of each kind.
Shares nothing with the product."""

import collections
import hashlib
import ipaddress
import struct
import sys

from captured import packets_of
from ipoib_reader import Wrong, expect

# Operations of reliable connections (IBA table 38): where a message's packet stands, and what goes with it.
SENDS = {0x00: "first", 0x01: "middle", 0x02: "last", 0x04: "only"}
WRITES = {0x06: "first", 0x07: "middle", 0x08: "last", 0x0A: "only"}
READ, READ_ANSWERS, ACKNOWLEDGE = 0x0C, {0x0D, 0x0E, 0x0F, 0x10}, 0x11
DATAGRAM = 0x64
CM_REQUEST, CM_REJECT, CM_REPLY, CM_DISCONNECT = 0x10, 0x12, 0x13, 0x15
SDP_SERVICE = bytes(5) + b"\x01"  # Port space 1; two bytes of port follow.

(HELLO, HELLO_ACK, DISCONNECT, ABORT, SEND_SM, WRITE_DONE, READ_DONE, MODE_CHANGE, SOURCE_CANCEL, SINK_CANCEL, SINK_CANCELLED,
 RESIZE, RESIZED, SUSPEND, SUSPENDED, SINK, SOURCE, DATA) = (*range(15), 0xFD, 0xFE, 0xFF)
# Each kind's name, bytes of its own header behind the BSDH, and whether bytes of the stream may follow.
KINDS = {DISCONNECT: ("DisConn", 0, False), ABORT: ("AbortConn", 0, False), SEND_SM: ("SendSm", 0, False),
         WRITE_DONE: ("RdmaWrCompl", 4, False), READ_DONE: ("RdmaRdCompl", 4, False), MODE_CHANGE: ("ModeChange", 4, False),
         SOURCE_CANCEL: ("SrcAvailCancel", 0, False), SINK_CANCEL: ("SinkAvailCancel", 0, False),
         SINK_CANCELLED: ("SinkCancelAck", 0, False), RESIZE: ("ChRcvBuf", 4, False), RESIZED: ("ChRcvBufAck", 4, False),
         SUSPEND: ("SuspComm", 8, False), SUSPENDED: ("SuspCommAck", 0, False), SINK: ("SinkAvail", 20, True),
         SOURCE: ("SrcAvail", 16, True), DATA: ("Data", 0, True)}
BSDH = 16
OOB_PRESENT, OOB_PENDING, PIPELINE = 1, 2, 4
BUFFERED, COMBINED, PIPELINED = 0, 1, 2
# ModeChange: who may ask for it (the source, or the sink, of that direction), from which mode, to which.
MODE_CHANGES = {0x0: ("source", COMBINED, BUFFERED), 0x1: ("source", PIPELINED, COMBINED), 0x2: ("source", COMBINED, PIPELINED),
                0x9: ("sink", BUFFERED, COMBINED)}


def is_after(one, other):
    """Message sequence numbers wrap."""
    return 0 < (one - other) & 0xFFFFFFFF < 1 << 31


class Offer:
    """Memory that an end has offered: SrcAvail for reading, SinkAvail for writing."""

    def __init__(self, extended, inline):
        self.size, self.key, self.address = struct.unpack_from(">IIQ", extended)
        self.inline = inline
        self.moved = self.reported = 0  # Bytes behind the inline ones.
        self.bytes = b""

    def has(self, address, key, size):
        return key == self.key and self.address + self.inline <= address and address + size <= self.address + self.size


class End:
    """One end of a connection: what it has sent, and what it has said that it takes."""

    def __init__(self, name, psn=0):
        self.name, self.next_psn = name, psn
        self.message = None          # A message that has begun.
        self.reads = {}              # First PSN of a READ to (address, packets, answers by PSN).
        self.write = None            # Where the next packet of a WRITE goes, and whither.
        self.peer = None
        self.sequence = self.acknowledged = self.limit = 0  # MSeq; MSeqAck; the last MSeq that its peer may send.
        self.receive_bytes = self.adverts_max = 0
        self.mode = COMBINED         # Of what it sends.
        self.offered = collections.deque()  # SrcAvails that are not completed.
        self.sinks = collections.deque()    # SinkAvails likewise.
        self.is_pending = self.has_ended = self.has_aborted = self.has_cancelled = False
        self.resizes = 0
        self.stream, self.bytes = hashlib.sha256(), 0

    def carry(self, data):
        self.stream.update(data)
        self.bytes += len(data)


class Connection:
    """Both ends, from Hello on."""

    def __init__(self, seen, client, private, mtu):
        self.seen, self.client, self.mtu, self.server = seen, client, mtu, None
        expect(len(private) == 92, "a Hello of", len(private), "bytes")
        self.on_greeting(client, private, HELLO, 92)
        kind, reserved, client.adverts_max, self.wanted, client.receive_bytes = struct.unpack_from(">BBBII", private, 17)
        expect(kind >> 4 in (4, 6) and kind & 0xC == 0, "IP version and capabilities", hex(kind))
        expect(reserved == 0 and private[30:32] == bytes(2) and not any(private[64:]), "reserved bytes of a Hello")
        expect(client.adverts_max >= 1, "no advertisement is allowed")
        expect(client.receive_bytes > BSDH and self.wanted > BSDH, "receives of", client.receive_bytes, self.wanted)
        if kind >> 4 == 4:
            expect(not any(private[32:44]) and not any(private[48:60]), "IPv4 addresses behind other bytes")
        self.addresses = [ipaddress.ip_address(one[12:] if kind >> 4 == 4 else one) for one in (private[32:48], private[48:64])]
        seen["Hello"] += 1

    def on_reply(self, server, private):
        self.server = server
        self.on_greeting(server, private, HELLO_ACK, 196)
        kind, reserved, server.adverts_max, server.receive_bytes = struct.unpack_from(">BBBI", private, 17)
        expect(kind & 0xC == 0 and reserved == 0 and not any(private[24:196]), "reserved bytes of a HelloAck")
        expect(server.adverts_max >= 1, "no advertisement is allowed")
        expect(server.receive_bytes > BSDH, "receives of", server.receive_bytes)
        server.peer, self.client.peer = self.client, server
        self.seen["HelloAck"] += 1

    @staticmethod
    def on_greeting(end, private, wanted, size):
        kind, flags, buffers, length, sequence, acknowledged, version = struct.unpack_from(">BBHIIIB", private)
        expect((kind, flags, length, sequence, acknowledged) == (wanted, 0, size, 0, 0), "greeting", private[:16].hex())
        expect(version == 0x22, "version", hex(version))
        expect(buffers > 0, "no receives at the beginning")
        end.limit = buffers

    # Packets to messages.
    def on_packet(self, end, packet):
        """One that `end` has sent."""
        if packet.opcode == ACKNOWLEDGE:
            return
        if packet.opcode in READ_ANSWERS:
            return self.on_read_answer(end.peer, packet)
        ahead = (packet.psn - end.next_psn) & 0xFFFFFF
        if ahead:
            self.seen["sent again" if ahead >> 23 else "ahead"] += 1
            return
        if packet.opcode == READ:
            return self.on_read(end, packet)
        end.next_psn = (end.next_psn + 1) & 0xFFFFFF
        if packet.opcode in WRITES:
            return self.on_write(end, WRITES[packet.opcode], packet)
        expect(packet.opcode in SENDS, "operation", hex(packet.opcode))
        place = SENDS[packet.opcode]
        expect((end.message is None) == (place in ("first", "only")), "a message's", place, "packet")
        end.message = (end.message or b"") + packet.body
        if place in ("last", "only"):
            message, end.message = end.message, None
            try:
                self.on_message(end, message)
            except Wrong as error:
                raise Wrong(f"{end.name}, MSeq {end.sequence}, {message[:BSDH].hex()}: {error}") from error

    def on_read(self, end, packet):
        address, key, size = struct.unpack_from(">QII", packet.body)
        expect(any(offer.has(address, key, size) for offer in end.peer.offered), "a READ of what is not offered")
        packets = max(1, -(-size // self.mtu))
        end.reads[end.next_psn] = (address, packets, {})
        end.next_psn = (end.next_psn + packets) & 0xFFFFFF
        self.seen["READ"] += 1

    def on_read_answer(self, reader, packet):
        """The bytes lie before RdmaRdCompl, which the reader sends when it has them."""
        data = packet.body[0 if packet.opcode == 0x0E else 4:]
        for first, (address, packets, answers) in reader.reads.items():
            at = (packet.psn - first) & 0xFFFFFF
            if at >= packets or packet.psn in answers:
                continue
            answers[packet.psn] = data
            if len(answers) == packets:
                everything = b"".join(answers[(first + one) & 0xFFFFFF] for one in range(packets))
                offer = next((one for one in reader.peer.offered if one.address + one.inline + one.moved == address), None)
                expect(offer, "a READ that is not the next of its offer")
                offer.moved += len(everything)
                offer.bytes += everything
                del reader.reads[first]
            return

    def on_write(self, end, place, packet):
        data = packet.body
        if place in ("first", "only"):
            address, key, size = struct.unpack_from(">QII", data)
            data = data[16:]
            if size == 0:  # It keeps the connection alive.
                self.seen["keep-alive"] += 1
                return
            end.write = next((one for one in end.peer.sinks if one.has(address, key, size)), None)
            expect(end.write and end.write.address + end.write.moved == address, "a WRITE to what is not offered")
            self.seen["WRITE"] += 1
        end.write.moved += len(data)
        end.write.bytes += data

    # Messages.
    def on_message(self, end, message):
        kind, flags, buffers, length, sequence, acknowledged = struct.unpack_from(">BBHIII", message)
        expect(length == len(message), "says", length, "bytes and has", len(message))
        expect(length <= end.peer.receive_bytes, "longer than its peer's receives of", end.peer.receive_bytes)
        expect(kind in KINDS, "kind", hex(kind))
        name, own, may_carry = KINDS[kind]
        data = message[BSDH + own:]
        expect(length >= BSDH + own and (may_carry or not data), name, "of", length, "bytes")
        expect(sequence == (end.sequence + 1) & 0xFFFFFFFF, "MSeq", sequence)
        end.sequence = sequence
        expect(not end.has_aborted, "a message after AbortConn")
        self.on_credits(end, kind, data, buffers, acknowledged)
        self.on_flags(end, kind, flags, data)
        getattr(self, "on_" + name, lambda *_: None)(end, message[BSDH:BSDH + own], data)
        self.seen[name if data or kind != DATA else "credits"] += 1

    def on_credits(self, end, kind, data, buffers, acknowledged):
        expect(not is_after(acknowledged, end.peer.sequence), "MSeqAck", acknowledged, "of", end.peer.sequence)
        expect(not is_after(end.acknowledged, acknowledged), "MSeqAck goes back to", acknowledged)
        end.acknowledged = acknowledged
        limit = (acknowledged + buffers) & 0xFFFFFFFF
        expect(not is_after(end.limit, limit), "takes receives back:", end.limit, "to", limit)
        end.limit = limit
        # What carries bytes leaves two receives, what else there is one, and only credits alone take the last.
        left = 2 if data else 0 if kind == DATA else 1
        rest = (end.peer.limit - end.sequence) & 0xFFFFFFFF
        expect(left <= rest < 1 << 31, "leaves", rest - (rest >> 31 << 32), "credits and not", left)

    def on_flags(self, end, kind, flags, data):
        expect(flags & ~7 == 0, "flags", hex(flags))
        if flags & OOB_PRESENT:
            expect(kind in (DATA, SOURCE) and data, "an urgent byte without bytes")
            end.is_pending = False
            self.seen["urgent byte"] += 1
        elif flags & OOB_PENDING:
            end.is_pending = True
        expect(not flags & PIPELINE or end.peer.mode == COMBINED, "asks for pipelining in mode", end.peer.mode)

    def on_Data(self, end, _, data):
        if data:
            expect(not end.has_ended, "bytes after DisConn")
            expect(not end.offered, "bytes while a SrcAvail before them is not completed")
            end.carry(data)

    def on_SrcAvail(self, end, extended, data):
        offer = Offer(extended, len(data))
        expect(not end.has_ended, "bytes after DisConn")
        expect(end.mode != BUFFERED, "SrcAvail in buffered mode")
        if end.mode == COMBINED:
            expect(not end.offered and 0 < len(data) < offer.size, "SrcAvail of", offer.size, "with", len(data), "bytes")
        else:
            expect(not data, "SrcAvail with bytes in pipelined mode")
        expect(len(end.offered) < end.peer.adverts_max, "more offers than its peer takes")
        end.has_cancelled = False
        end.offered.append(offer)
        end.carry(data)

    def on_RdmaRdCompl(self, end, extended, _):
        expect(end.peer.offered, "RdmaRdCompl without SrcAvail")
        offer, size = end.peer.offered[0], struct.unpack(">I", extended)[0]
        expect(0 < size <= offer.moved - offer.reported, "RdmaRdCompl of", size, "bytes,", offer.moved, "were read")
        end.peer.carry(offer.bytes[offer.reported:offer.reported + size])
        offer.reported += size
        if offer.inline + offer.reported == offer.size:
            end.peer.offered.popleft()

    def on_SendSm(self, end, *_):
        """All offers are refused: what was not reported comes as Data. It may cross the completion's end of a cancellation."""
        expect(end.peer.offered or end.peer.has_cancelled, "SendSm without SrcAvail")
        expect(not end.reads, "SendSm while it reads")
        end.peer.offered.clear()
        end.peer.has_cancelled = False

    def on_SrcAvailCancel(self, end, *_):
        expect(not end.has_cancelled, "a second SrcAvailCancel")
        end.has_cancelled = True

    def on_SinkAvail(self, end, extended, data):
        expect(end.peer.mode == PIPELINED, "SinkAvail in mode", end.peer.mode)
        expect(len(end.sinks) < end.peer.adverts_max, "more offers than its peer takes")
        end.sinks.append(Offer(extended, 0))
        end.carry(data)

    def on_RdmaWrCompl(self, end, extended, _):
        expect(end.peer.sinks, "RdmaWrCompl without SinkAvail")
        offer, size = end.peer.sinks.popleft(), struct.unpack(">I", extended)[0]
        expect(size == offer.moved, "RdmaWrCompl of", size, "bytes,", offer.moved, "were written")
        end.carry(offer.bytes)

    def on_SinkAvailCancel(self, end, *_):
        end.has_cancelled = True

    def on_SinkCancelAck(self, end, *_):
        expect(end.peer.has_cancelled, "SinkCancelAck without SinkAvailCancel")
        end.peer.sinks.clear()

    def on_ModeChange(self, end, extended, _):
        expect(extended[0] & 0xF == 0 and not any(extended[1:]), "reserved bits of ModeChange")
        expect(extended[0] >> 4 in MODE_CHANGES, "mode", hex(extended[0]))
        who, before, after = MODE_CHANGES[extended[0] >> 4]
        source = end if who == "source" else end.peer
        expect(source.mode == before, "from mode", source.mode, "to", after)
        expect(not source.offered or after != BUFFERED, "to buffered mode with offers")
        source.mode = after

    def on_ChRcvBuf(self, end, *_):
        end.resizes += 1
        expect(end.resizes == 1, "a second ChRcvBuf before the first's answer")

    def on_ChRcvBufAck(self, end, extended, _):
        expect(end.peer.resizes == 1, "ChRcvBufAck without ChRcvBuf")
        end.peer.resizes = 0
        end.receive_bytes = struct.unpack(">I", extended)[0]
        expect(end.receive_bytes > BSDH, "receives of", end.receive_bytes)

    def on_DisConn(self, end, *_):
        expect(not end.has_ended, "a second DisConn")
        expect(not end.is_pending, "an urgent byte that was announced never came")
        expect(not end.offered, "DisConn while a SrcAvail is not completed")
        end.has_ended = True

    def on_AbortConn(self, end, *_):
        end.has_aborted = True


class Reader:
    """One file: connections by the queue pairs to which their messages go."""

    def __init__(self):
        self.seen = collections.Counter()
        self.connections = []
        self.to = {}      # (address, queue pair) to the connection and the end that sends there.
        self.asked = {}   # (address of who asks, its communication id) to a connection, its queue pair, its peer's first PSN.

    def read(self, path):
        for number, packet in enumerate(packets_of(path), 1):
            try:
                self.on_packet(packet)
            except (Wrong, struct.error, IndexError) as error:
                raise Wrong(f"packet {number}: {error!r}") from error

    def on_packet(self, packet):
        if packet.opcode == DATAGRAM and packet.queue_pair == 1:
            return self.on_management(packet)
        connection, end = self.to.get((packet.destination, packet.queue_pair), (None, None))
        if end:
            return connection.on_packet(end, packet)
        self.seen["of other protocols"] += 1

    def on_management(self, packet):
        mad = packet.body[8:]
        attribute, body = struct.unpack_from(">H", mad, 16)[0], mad[24:]
        if mad[1] != 7:
            return
        if attribute == CM_REQUEST and body[8:14] == SDP_SERVICE:
            self.on_request(packet, body)
        elif attribute == CM_REPLY:
            self.on_reply(packet, body)
        elif attribute == CM_REJECT and self.asked.pop((packet.destination, body[4:8]), None):
            self.seen["refused"] += 1
        elif attribute == CM_DISCONNECT:
            self.seen["disconnected by the CM"] += 1

    def on_request(self, packet, body):
        place = packet.source, body[0:4]
        if place in self.asked:
            return
        queue_pair, psn = int.from_bytes(body[32:35], "big"), int.from_bytes(body[44:47], "big")
        mtu = 128 << (body[50] >> 4)
        connection = Connection(self.seen, End("client"), body[140:232], mtu)
        if isinstance(packet.source, bytes):
            expect([one.packed for one in connection.addresses] == [packet.source, packet.destination], "addresses of the Hello")
        self.asked[place] = connection, queue_pair, psn

    def on_reply(self, packet, body):
        connection, queue_pair, psn = self.asked.get((packet.destination, body[4:8]), (None, None, 0))
        if not connection or connection.server:
            return
        # Each says where its peer's numbers begin (IBA 12.6.5, 12.6.8).
        own, connection.client.next_psn = int.from_bytes(body[12:15], "big"), int.from_bytes(body[20:23], "big")
        connection.on_reply(End("server", psn), body[36:232])
        self.to[packet.source, own] = connection, connection.client
        self.to[packet.destination, queue_pair] = connection, connection.server
        self.connections.append(connection)


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
