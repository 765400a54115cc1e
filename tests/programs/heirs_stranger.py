"""A case of heirs.py: a child that asks for what it has not inherited."""

import os
import socket
import struct

from heirs_help import expect_line, in_child, say, wait


def lines_to_owner():
    """The sockets by which a child of ours may ask its parent's process for streams; TCP has none."""
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            found = socket.socket(fileno=os.dup(number))
        except OSError:
            continue
        is_pair = found.family == socket.AF_UNIX and found.type == socket.SOCK_SEQPACKET and not found.getpeername()
        if is_pair:
            yield found


def all_streams(line_to_owner):
    """Asks for each serial number, as src/dropin/rspreload/heirs/message.cpp does."""
    for serial in range(1, 200):
        own, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with own, theirs:
            try:
                socket.send_fds(line_to_owner, [struct.pack("IB3x", serial, 0)], [theirs.fileno()])
            except BrokenPipeError:
                return
            theirs.close()
            numbers = socket.recv_fds(own, 8, 1)[1]
        yield from (socket.socket(fileno=number) for number in numbers)


class Stranger:
    """A child has what it has inherited, and not what its parent accepts later, whatever it asks of its parent's process."""

    listener = None

    @classmethod
    def server(cls, connection):
        connection.sendall(b"220 ready\n")
        expect_line(connection, "parent")
        ready, go = os.pipe()

        def steal():
            os.read(ready, 1)
            names = connection.getpeername()
            found = [got for line_of in lines_to_owner() for got in all_streams(line_of)]
            say("child has others", sum(got.getpeername() != names for got in found))
            connection.sendall(b"child\n")

        child = in_child(steal)
        later = cls.listener.accept()[0]
        expect_line(later, "parent")
        os.write(go, b"x")
        wait(child)
        later.sendall(b"parent\n")
        for one in (ready, go):
            os.close(one)
        later.close()

    @staticmethod
    def client(connection):
        expect_line(connection, "client")
        connection.sendall(b"one\n")
        later = socket.create_connection(connection.getpeername())
        later.sendall(b"two\n")
        expect_line(later, "client")
        expect_line(connection, "client")
        later.close()
