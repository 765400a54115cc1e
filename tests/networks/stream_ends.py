#!/usr/bin/python3
"""An ordinary program with sockets, that knows nothing of RDMA: `stream_ends.py server|client ADDRESS PORT` tests what
ends a stream, and urgent data."""

import os
import select
import socket
import struct
import sys
import time

SECONDS = 20


def expect(what, found, wanted):
    if found != wanted:
        raise SystemExit(f"{what}: {found!r}, not {wanted!r}")


def until(what, done):
    end = time.monotonic() + SECONDS
    while not done():
        if time.monotonic() > end:
            raise SystemExit(f"{what}: not within {SECONDS} seconds")
        time.sleep(0.001)


def read_all(connection):
    received = bytearray()
    while data := connection.recv(65536):
        received += data
    return bytes(received)


def half_close(connection, listener):
    """Each direction ends alone."""
    if listener:
        expect("until the end", len(read_all(connection)), 1_000_000)
        connection.sendall(b"after your end")
    else:
        connection.sendall(bytes(1_000_000))
        connection.shutdown(socket.SHUT_WR)
        try:
            connection.send(b"x")
            raise SystemExit("a send after shutdown is taken")
        except BrokenPipeError:
            pass
        expect("after the own end", read_all(connection), b"after your end")
        expect("the end again", connection.recv(1), b"")


def urgent(connection, listener):
    """An urgent byte is out of the stream, and marks a place in it."""
    if not listener:
        connection.sendall(b"before")
        connection.send(b"now!", socket.MSG_OOB)
        connection.sendall(b"after")
        expect("the answer", connection.recv(10), b"seen")
        return
    _, _, urgent_ones = select.select([], [], [connection], SECONDS)
    expect("select says that it is urgent", urgent_ones, [connection])
    expect("the urgent byte", connection.recv(1, socket.MSG_OOB), b"!")
    expect("a read stops at the mark", connection.recv(100, socket.MSG_WAITALL)[:9], b"beforenow")
    connection.sendall(b"seen")


def peeked(connection, listener):
    if not listener:
        return connection.sendall(b"one two")
    until("all has come", lambda: len(connection.recv(100, socket.MSG_PEEK)) == 7)
    expect("peek", connection.recv(3, socket.MSG_PEEK), b"one")
    expect("read", connection.recv(100), b"one two")
    expect("nothing is left", read_all(connection), b"")


def full(connection, listener):
    """A sender that is not read from waits, and a poll says so; all arrives in the end."""
    if listener:
        expect("the first byte", connection.recv(1), b"\0")
        with listener.accept()[0]:  # The other end is full.
            expect("what has come", set(read_all(connection)), {0})
        return
    connection.sendall(b"\0")  # Both ends use the connection from now on.
    connection.setblocking(False)
    sent = 0
    while select.select([], [connection], [], 0.2)[1]:
        sent += connection.send(bytes(100_000))
    expect("some was sent", sent > 100_000, True)
    with socket.create_connection(connection.getpeername()):
        expect("room again", select.select([], [connection], [], SECONDS)[1], [connection])
        connection.setblocking(True)
        connection.sendall(bytes(3_000_000))


def names(connection, listener):
    """Both ends call the connection by the same names."""
    own, peer = connection.getsockname()[:2], connection.getpeername()[:2]
    text = f"{own} {peer}".encode() if listener else f"{peer} {own}".encode()
    connection.sendall(text)
    expect("the peer's names", connection.recv(1000), text)
    expect("type", connection.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE), socket.SOCK_STREAM)
    expect("error", connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR), 0)


def reset(connection, listener):
    """A close without time to linger, or with unread data, is a reset for the other end."""
    if listener:
        for linger in (True, False):
            other = listener.accept()[0]
            if linger:
                other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            until("something to read", lambda other=other: other.recv(1, socket.MSG_PEEK) == b"x")
            if linger:
                other.recv(1)
            other.close()
        return
    for _ in range(2):
        with socket.create_connection(connection.getpeername()) as other:
            other.sendall(b"x")
            try:
                raise SystemExit(f"no reset, but {other.recv(1)}")
            except ConnectionResetError:
                pass


def left(connection, listener):
    """Connections leave no descriptor behind, at either end."""
    if listener:
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(100):
            with listener.accept()[0] as other:
                expect("hello", other.recv(10), b"hello")
        expect("descriptors are left", max(len(os.listdir("/proc/self/fd")) - before, 0), 0)
        return connection.sendall(b"done")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(100):
        with socket.create_connection(connection.getpeername()) as other:
            other.sendall(b"hello")
    expect("descriptors are left", max(len(os.listdir("/proc/self/fd")) - before, 0), 0)
    return expect("the other end", connection.recv(10), b"done")


def killed(connection, listener):
    """The last one: a process that ends without a close ends its connections."""
    if listener:
        connection.recv(1)
        os._exit(0)
    connection.sendall(struct.pack("!I", 1))
    try:
        expect("the end", connection.recv(1), b"")
    except ConnectionResetError:
        pass


def is_refused(place):
    """A process that ends closes its connections before its listener."""
    try:
        socket.create_connection(place, timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


TESTS = (half_close, urgent, peeked, full, names, reset, left, killed)


def main():
    role, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
    listener = socket.create_server((address, port)) if role == "server" else None
    for test in TESTS:
        if listener:
            connection = listener.accept()[0]
        else:
            connection = socket.create_connection((address, port))
        with connection:
            test(connection, listener)
        print(f"{test.__name__}: ok", flush=True)
    until("nobody listens any more", lambda: is_refused((address, port)))


if __name__ == "__main__":
    main()
