#!/usr/bin/env python3
"""The fabric's daemon is killed: connections between running programs go on, since programs move the packets; a new
daemon of the same name has a new fabric. And it does not take one program for another."""

import glob
import os
import signal
import socket
import struct
import sys
import unittest

from fabricbed import CHAIN, FabricBed, run_tests

from testbed import SKIPPED, are_installed, option_parser, wait_until

OPTIONS = None  # Set in main.
SECONDS_MAX = 60


class Connection:
    """Messages of src/fabric/protocol/messages.h by hand."""

    ATTACH_DATA, JOIN_GROUP, DONE, DATA_ATTACHED = 10, 11, 0x101, 0x108

    def __init__(self, bed):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        (path,) = glob.glob(f"{bed.folder}/**/fabric-default/socket", recursive=True)
        self._socket.connect(path)

    def _send(self, kind, form, *values):
        self._socket.send(struct.pack("=IHH" + form, 0x56726246, 4, kind, *values))

    def begin_to_attach(self, host, qpn_range):
        self._send(self.ATTACH_DATA, "65sBxxI", host.encode(), 1, qpn_range)

    def begin_to_join(self, lid):
        self._send(self.JOIN_GROUP, "HBx", lid, 1)

    def answer(self):
        """Its type; None: the daemon has closed the connection."""
        message = self._socket.recv(4096)
        return struct.unpack_from("=IHH", message)[2] if message else None

    def close(self):
        self._socket.close()


class OtherPrograms(unittest.TestCase):
    def setUp(self):
        self.bed = FabricBed(OPTIONS)
        self.bed.end_with(self)
        self.bed.up(CHAIN)

    def start_program(self):
        """A process that attaches. It closes its connection when it is told, and ends when it is told again."""
        orders, teller = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            teller.close()
            connection = Connection(self.bed)
            connection.begin_to_attach("H1", 100)
            orders.send(bytes([connection.answer() == Connection.DATA_ATTACHED]))
            orders.recv(1)
            connection.close()
            orders.send(b"c")
            orders.recv(1)
            os._exit(0)
        orders.close()
        self.addCleanup(teller.close)
        self.assertEqual(teller.recv(1), b"\1")
        return pid, teller

    def test_one_that_comes_as_another_ends_keeps_its_end(self):
        pid, program = self.start_program()
        newcomers = [Connection(self.bed) for _ in range(2)]
        for connection in newcomers:  # The daemon knows them.
            self.addCleanup(connection.close)
            connection.begin_to_join(0xC000)
            connection.answer()
        daemon = self.bed.daemon()
        os.kill(daemon, signal.SIGSTOP)  # It finds all that follows in one turn.
        try:
            program.send(b"c")
            program.recv(1)
            for place, connection in enumerate(newcomers):
                connection.begin_to_attach("H1", 101 + place)
            program.send(b"e")
            os.waitpid(pid, 0)
        finally:
            os.kill(daemon, signal.SIGCONT)
        for connection in newcomers:
            self.assertEqual(connection.answer(), Connection.DATA_ATTACHED)
        for connection in newcomers:
            connection.begin_to_join(0xC001)
            self.assertEqual(connection.answer(), Connection.DONE)


class Daemon(unittest.TestCase):
    def setUp(self):
        self.bed = FabricBed(OPTIONS)
        self.bed.end_with(self)
        self.up()

    def up(self):
        self.bed.up(CHAIN, "--manager", "opensm")
        self.bed.wait_until_active("H1", "H2")

    def start_writes(self, count):
        """From H2 to H1. Returns both programs."""
        server, command = self.bed.start_server("H1", "ib_write_bw", "-F", "-s", "65536", "-n", str(count))
        return server, self.bed.start("H2", *command)

    def ends_well(self, programs):
        return [program.wait(SECONDS_MAX) for program in programs] == [0, 0]

    def test_programs_of_the_fabric_before_hold_up_no_new_ones(self):
        """Those that run, and one that is stopped."""
        for is_stopped in (False, True):
            old = self.bed.start("H2", "rping", "-s", "-C", "1000")
            wait_until(lambda: "rping" in self.bed.verbatim("status"), SECONDS_MAX, "the old program")
            if is_stopped:
                os.kill(old.pid, signal.SIGSTOP)
            self.bed.verbatim("fabric", "down")
            self.up()
            self.assertIn("PORT_ACTIVE", self.bed.run("H2", "ibv_devinfo"))
            self.assertTrue(self.ends_well(self.start_writes(500)))
            self.assertIsNone(old.poll())
            self.bed.end(old)

    def test_connections_go_on_without_it_and_a_new_one_has_a_new_fabric(self):
        programs = self.start_writes(10_000)
        wait_until(lambda: self.bed.bytes_sent("S2", 1) > 4_000_000, SECONDS_MAX, "data")
        os.kill(self.bed.daemon(), signal.SIGKILL)
        self.assertTrue(self.ends_well(programs))
        self.up()
        self.assertTrue(self.ends_well(self.start_writes(500)))
        self.assertEqual(self.bed.verbatim("fabric", "check"), "")


def main():
    global OPTIONS
    OPTIONS = option_parser(__doc__).parse_args()
    if not are_installed("opensm", "ibstat", "perfquery", "ib_write_bw"):
        return SKIPPED
    run_tests()
    return 0


if __name__ == "__main__":
    sys.exit(main())
