"""Both ends of a connection in one program, what it knows of them, and calls that Python has not."""

import array
import ctypes
import fcntl
import os
import select
import socket
import sys
import termios
import threading
import time

SECONDS = 5
LIBC = ctypes.CDLL(None, use_errno=True)
NAMES = {getattr(select, name): name for name in ("POLLIN", "POLLOUT", "POLLPRI", "POLLERR", "POLLHUP", "POLLRDHUP", "POLLNVAL")}


def words_of(events):
    return "|".join(sorted(name for bit, name in NAMES.items() if events & bit)) or "nothing"


class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]


class Message(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("name_length", ctypes.c_uint), ("pieces", ctypes.c_void_p),
                ("count", ctypes.c_size_t), ("control", ctypes.c_void_p), ("control_length", ctypes.c_size_t),
                ("flags", ctypes.c_int)]


class Messages(ctypes.Structure):
    _fields_ = [("message", Message), ("bytes", ctypes.c_uint)]


class End:
    """One end: its number, and what this program knows of it so as to wait for what is on its way."""

    def __init__(self, name, connection):
        self.name = name
        self.number = connection.detach()
        self.others = []  # Duplicates.
        self.unread = 0   # Bytes that the peer has sent, or that have come.
        self.sent = 0
        self.peer_ended = False
        self.reset = False
        self.is_deaf = False  # What is sent to it now is answered with a reset, sooner or later.
        self.epoll = select.epoll()
        self.mode = None
        self.inline = None  # SO_OOBINLINE, if there is urgent data.

    def is_closed(self):
        return self.number < 0

    def socket(self):
        return socket.socket(fileno=os.dup(self.number))


def waiting(end):
    number = array.array("i", [0])
    fcntl.ioctl(end.number, termios.FIONREAD, number)
    return number[0]


def arrived(end):
    """All bytes that are unread, urgent ones too, which FIONREAD leaves out unless they are inline."""
    if end.inline is None:
        return waiting(end)
    with end.socket() as it:
        it.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
        count = waiting(end)
        it.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, end.inline)
    return count


def state(end):
    poll = select.poll()
    poll.register(end.number, select.POLLIN | select.POLLOUT | select.POLLPRI | select.POLLRDHUP)
    return dict(poll.poll(0)).get(end.number, 0)


def settle(end):
    """Waits until all that the peer has sent is here."""
    limit = time.monotonic() + SECONDS
    while time.monotonic() < limit:
        flags = state(end)
        if end.reset and flags & select.POLLHUP:
            return
        if not end.reset and arrived(end) >= end.unread and (not end.peer_ended or flags & select.POLLRDHUP):
            return
        time.sleep(0.0002)
    print(f"{end.name} waits: {waiting(end)} of {end.unread} bytes, {words_of(state(end))}", file=sys.stderr)


def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


def send_bytes(number, data, flags):
    return checked(LIBC.send(number, data, ctypes.c_size_t(len(data)), flags | socket.MSG_NOSIGNAL))


def connect(address):
    """Both ends have used the connection when it is returned."""
    with socket.create_server((address, 0)) as listener:
        found = []

        def serve():
            found.append(listener.accept()[0])
            found[0].recv(1)

        thread = threading.Thread(target=serve)
        thread.start()
        client = socket.create_connection(listener.getsockname()[:2])
        client.sendall(b"x")
        thread.join()
    for end in (client, found[0]):
        end.setblocking(False)
    return client, found[0]
