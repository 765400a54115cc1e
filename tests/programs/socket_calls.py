#!/usr/bin/python3
"""Random calls at both ends of a connection, in one program that knows nothing of RDMA: `socket_calls.py ADDRESS FIRST COUNT`
prints a line for each call of each seed. What it prints on TCP is what it must print on any other carrier. With `urgent` behind
that, some calls are about urgent data."""

import array
import ctypes
import errno
import fcntl
import os
import random
import select
import socket
import struct
import sys
import tempfile
import termios
import time

import urgent_calls
from socket_ends import (LIBC, SECONDS, End, Message, Messages, Vector, arrived, checked, connect, send_bytes, settle, state,
                         waiting, words_of)

CALLS = 60
MOST = 6000
MOST_UNREAD = 30_000  # In any carrier's buffers.
LETTERS = bytes(range(97, 123)) * 1000
OPTIONS = [(socket.SOL_SOCKET, getattr(socket, name), name) for name in
           ("SO_ERROR", "SO_TYPE", "SO_DOMAIN", "SO_PROTOCOL", "SO_ACCEPTCONN", "SO_KEEPALIVE", "SO_OOBINLINE", "SO_BROADCAST",
            "SO_RCVLOWAT", "SO_PRIORITY", "SO_DONTROUTE")]
OPTIONS += [(socket.IPPROTO_TCP, getattr(socket, name), name) for name in
            ("TCP_NODELAY", "TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT", "TCP_CORK", "TCP_DEFER_ACCEPT",
             "TCP_USER_TIMEOUT", "TCP_LINGER2")]
SETTABLE = [row for row in OPTIONS if row[2] in ("SO_KEEPALIVE", "TCP_NODELAY", "TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT",
                                                "TCP_USER_TIMEOUT", "TCP_CORK", "SO_PRIORITY")]


class Run:
    def __init__(self, seed, address, kinds):
        self.kinds = kinds
        self.random = random.Random(seed)
        self.say = lambda *words: print(seed, *words, flush=True)
        self.a, self.b = (End(name, it) for name, it in zip("ab", connect(address)))

    def attempt(self, end, what, call):
        try:
            found = call()
        except OSError as error:
            found = errno.errorcode[error.errno]
        if isinstance(found, bytes):
            found = f"{len(found)}:{found[:6].decode()}:{found[-6:].decode()}"
        self.say(end.name, what, found)
        return found

    def step(self):
        end, peer = (self.a, self.b) if self.random.random() < 0.5 else (self.b, self.a)
        settle(end)
        kind = self.random.choices([row[0] for row in self.kinds], [row[1] for row in self.kinds])[0]
        kind(self, end, peer)

    def send_by(self, end, peer, what, size, call):
        if peer.unread + size > MOST_UNREAD or peer.is_deaf:
            return
        data = LETTERS[end.sent % 26:][:size]
        sent = self.attempt(end, f"{what} {size}", lambda: call(data))
        if isinstance(sent, int):
            end.sent += sent
            peer.unread += sent
            if peer.is_closed():
                end.reset = True

    def size(self):
        return self.random.choice((0, 1, 2, 100, 1000, 4096, self.random.randrange(MOST)))


def send(run, end, peer):
    size = run.size()
    ways = {"send": lambda data: send_bytes(end.number, data, 0),
            "send nosignal": lambda data: send_bytes(end.number, data, socket.MSG_NOSIGNAL),
            "write": lambda data: os.write(end.number, data),
            "writev": lambda data: os.writev(end.number, [data[:size // 3], b"", data[size // 3:]]),
            "send more": lambda data: send_bytes(end.number, data, socket.MSG_MORE)}
    way = run.random.choice(list(ways))
    run.send_by(end, peer, way, size, ways[way])


def send_messages(run, end, peer):
    size = run.size()

    def call(data):
        pieces = [ctypes.create_string_buffer(piece, max(len(piece), 1)) for piece in (data[:size // 2], data[size // 2:])]
        vectors = [Vector(ctypes.cast(piece, ctypes.c_void_p), length)
                   for piece, length in zip(pieces, (size // 2, size - size // 2))]
        messages = (Messages * 2)(*[Messages(Message(pieces=ctypes.cast(ctypes.pointer(vector), ctypes.c_void_p), count=1), 0)
                                    for vector in vectors])
        count = checked(LIBC.sendmmsg(end.number, messages, 2, socket.MSG_NOSIGNAL))
        return sum(messages[i].bytes for i in range(count))

    run.send_by(end, peer, "sendmmsg", size, call)


def send_file(run, end, peer):
    size = run.size()
    with tempfile.TemporaryFile() as file:
        def call(data):
            file.write(data)
            file.flush()
            file.seek(0)
            return os.sendfile(end.number, file.fileno(), 0 if run.random.random() < 0.5 else None, size)

        run.send_by(end, peer, "sendfile", size, call)


def splice_out(run, end, peer):
    size = max(run.size(), 1)
    ends = os.pipe()

    def call(data):
        os.write(ends[1], data)
        return os.splice(ends[0], end.number, size)

    run.send_by(end, peer, "splice to", size, call)
    for number in ends:
        os.close(number)


def take(run, end, what, call):
    found = run.attempt(end, what, call)
    if end.inline is not None:
        end.unread = arrived(end)
    elif isinstance(found, str) and found[0].isdigit():
        end.unread -= int(found.split(":")[0])


def receive(run, end, _):
    size = run.size()
    buffers = [bytearray(size // 2), bytearray(size - size // 2)]

    def vector():
        count = os.readv(end.number, buffers)
        return bytes(b"".join(buffers)[:count])

    def by(flags):
        buffer = ctypes.create_string_buffer(max(size, 1))
        count = checked(LIBC.recv(end.number, buffer, ctypes.c_size_t(size), flags))
        return buffer.raw[:count]

    ways = {"read": lambda: os.read(end.number, size), "readv": vector, "recv": lambda: by(0),
            "recv dontwait": lambda: by(socket.MSG_DONTWAIT), "recv trunc": lambda: by(socket.MSG_DONTWAIT)}
    if 0 < size <= end.unread:
        ways["recv all"] = lambda: by(socket.MSG_WAITALL)
    way = run.random.choice(list(ways))
    take(run, end, f"{way} {size}", ways[way])


def receive_message(run, end, _):
    size = run.size()
    with end.socket() as it:
        def call():
            data, control, flags, _ = it.recvmsg(size, 100)
            run.say(end.name, "control", control, "flags", flags)
            return data

        take(run, end, f"recvmsg {size}", call)


def receive_messages(run, end, _):
    size = max(run.size(), 1)

    def call():
        buffers = [ctypes.create_string_buffer(size) for _ in range(2)]
        vectors = [Vector(ctypes.cast(buffer, ctypes.c_void_p), size) for buffer in buffers]
        messages = (Messages * 2)(*[Messages(Message(pieces=ctypes.cast(ctypes.pointer(vector), ctypes.c_void_p), count=1), 0)
                                    for vector in vectors])
        count = checked(LIBC.recvmmsg(end.number, messages, 2, socket.MSG_DONTWAIT, None))
        return b"".join(buffers[i].raw[:messages[i].bytes] for i in range(count))

    take(run, end, f"recvmmsg {size}", call)


def splice_in(run, end, _):
    size = max(run.size(), 1)
    ends = os.pipe()

    def call():
        count = os.splice(end.number, ends[1], size, flags=2)
        return os.read(ends[0], count) if count else b""

    take(run, end, f"splice from {size}", call)
    for number in ends:
        os.close(number)


def peek(run, end, _):
    size = run.size()
    with end.socket() as it:
        run.attempt(end, f"peek {size}", lambda: it.recv(size, socket.MSG_PEEK))


def look(run, end, _):
    run.say(end.name, "poll", words_of(state(end)))


def look_by_select(run, end, _):
    found = select.select([end.number], [end.number], [end.number], 0)
    run.say(end.name, "select", *[len(one) for one in found])


def count(run, end, _):
    run.attempt(end, "FIONREAD", lambda: waiting(end))


def change_epoll(run, end, _):
    if end.mode is None:
        end.mode = run.random.choice((0, select.EPOLLET, select.EPOLLONESHOT, select.EPOLLEXCLUSIVE))
        mask = select.EPOLLIN | select.EPOLLOUT | (0 if end.mode == select.EPOLLEXCLUSIVE else select.EPOLLRDHUP)
        run.attempt(end, f"epoll add {end.mode:#x}", lambda: end.epoll.register(end.number, mask | end.mode))
    elif end.mode == select.EPOLLONESHOT:
        run.attempt(end, "epoll mod", lambda: end.epoll.modify(end.number, select.EPOLLIN | select.EPOLLONESHOT))
    else:
        run.attempt(end, "epoll del", lambda: end.epoll.unregister(end.number))
        end.mode = None


def look_by_epoll(run, end, _):
    if end.mode == select.EPOLLET:
        return  # How many edges there are is the carrier's affair.
    run.say(end.name, "epoll", words_of(dict(end.epoll.poll(0)).get(end.number, 0)))


def shut(run, end, peer):
    how = run.random.choice((socket.SHUT_WR, socket.SHUT_WR, socket.SHUT_RDWR))
    found = run.attempt(end, f"shutdown {how}", lambda: checked(LIBC.shutdown(end.number, how)))
    if found == 0:
        peer.peer_ended = True
        if how == socket.SHUT_RDWR:
            end.peer_ended = end.is_deaf = True


def options(run, end, _):
    level, option, name = run.random.choice(OPTIONS)
    with end.socket() as it:
        run.attempt(end, f"get {name}", lambda: it.getsockopt(level, option))


def change_option(run, end, _):
    level, option, name = run.random.choice(SETTABLE)
    value = run.random.choice((0, 1, 5))
    with end.socket() as it:
        run.attempt(end, f"set {name} {value}", lambda: it.setsockopt(level, option, value))
        run.attempt(end, f"get {name}", lambda: it.getsockopt(level, option))


def linger(run, end, _):
    on = struct.pack("ii", run.random.randrange(2), 5)
    with end.socket() as it:
        run.attempt(end, f"set SO_LINGER {on.hex()}", lambda: it.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, on))
        run.attempt(end, "get SO_LINGER", lambda: it.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER, 8).hex())


def timeouts(run, end, _):
    option = run.random.choice((socket.SO_RCVTIMEO, socket.SO_SNDTIMEO))
    value = struct.pack("ll", run.random.randrange(3), 40_000)
    with end.socket() as it:
        run.attempt(end, f"set {option}", lambda: it.setsockopt(socket.SOL_SOCKET, option, value))
        run.attempt(end, f"get {option}", lambda: it.getsockopt(socket.SOL_SOCKET, option, 16).hex())


def time_out(run, end, _):
    """A blocking receive with a time limit, when there is nothing to receive."""
    if end.unread or end.peer_ended or end.reset:
        return
    with end.socket() as it:
        it.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 20_000))
        flags = fcntl.fcntl(end.number, fcntl.F_GETFL)
        fcntl.fcntl(end.number, fcntl.F_SETFL, flags & ~os.O_NONBLOCK)
        run.attempt(end, "recv with a time limit", lambda: os.read(end.number, 10))
        fcntl.fcntl(end.number, fcntl.F_SETFL, flags)
        it.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", 0, 0))


def wrong(run, end, peer):
    """Calls that are none for a connected stream."""
    with end.socket() as it:
        name = it.getsockname()
        calls = {"listen": lambda: it.listen(), "accept": lambda: it._accept(), "bind": lambda: it.bind(("127.0.0.1", 0)),
                 "connect": lambda: it.connect(name), "lseek": lambda: os.lseek(end.number, 0, os.SEEK_SET),
                 "pread": lambda: os.pread(end.number, 1, 0), "fsync": lambda: os.fsync(end.number),
                 "ftruncate": lambda: os.ftruncate(end.number, 0), "shutdown 7": lambda: it.shutdown(7),
                 "recv oob": lambda: it.recv(1, socket.MSG_OOB), "isatty": lambda: os.isatty(end.number)}
        what = run.random.choice(list(calls))
        if what in ("accept", "bind") and (end.peer_ended or end.reset):
            return  # TCP's may be bound anew once both directions have ended.
        run.attempt(end, what, calls[what])


def at_mark(run, end, _):
    run.attempt(end, "SIOCATMARK", lambda: urgent_calls.is_at_mark(end))


def names(run, end, peer):
    with end.socket() as it, peer.socket() as other:
        def same():
            return it.getsockname() == other.getpeername()

        if not (end.peer_ended or peer.peer_ended or end.reset or peer.reset):
            run.attempt(end, "names agree", same)


def duplicate(run, end, _):
    ways = {"dup": lambda: os.dup(end.number), "F_DUPFD": lambda: fcntl.fcntl(end.number, fcntl.F_DUPFD, 50),
            "F_DUPFD_CLOEXEC": lambda: fcntl.fcntl(end.number, fcntl.F_DUPFD_CLOEXEC, 60),
            "dup2": lambda: os.dup2(end.number, 90), "dup3": lambda: os.dup2(end.number, 91, inheritable=False)}
    way = run.random.choice(list(ways))
    number = ways[way]()
    run.say(end.name, way, fcntl.fcntl(number, fcntl.F_GETFD), fcntl.fcntl(number, fcntl.F_GETFL) & os.O_NONBLOCK,
            oct(os.fstat(number).st_mode & 0o170000))
    os.close(number)


def flags(run, end, _):
    old = fcntl.fcntl(end.number, fcntl.F_GETFL)
    run.say(end.name, "flags", hex(old), fcntl.fcntl(end.number, fcntl.F_GETFD))
    fcntl.fcntl(end.number, fcntl.F_SETFD, run.random.randrange(2))
    run.say(end.name, "F_GETFD", fcntl.fcntl(end.number, fcntl.F_GETFD))
    one = array.array("i", [1])
    fcntl.ioctl(end.number, termios.FIONBIO, one)
    run.say(end.name, "FIONBIO", fcntl.fcntl(end.number, fcntl.F_GETFL) & os.O_NONBLOCK)


KINDS = [(send, 14), (receive, 14), (look, 8), (peek, 4), (count, 4), (receive_message, 3), (receive_messages, 2),
         (send_messages, 2), (send_file, 2), (splice_out, 1), (splice_in, 1), (look_by_select, 4), (change_epoll, 3),
         (look_by_epoll, 5), (shut, 0.7), (options, 4), (change_option, 3), (linger, 1), (timeouts, 1), (time_out, 1),
         (wrong, 3), (names, 2), (duplicate, 3), (flags, 2), (at_mark, 1)]
# splice(2) stops at an urgent byte for ever, on TCP alone.
URGENT_KINDS = [row for row in KINDS if row[0] not in (options, change_option, splice_in)] + [*urgent_calls.KINDS, (at_mark, 8)]


def finish(run):
    """Closes one end with what is left unread, and looks from the other."""
    first, last = (run.a, run.b) if run.random.random() < 0.5 else (run.b, run.a)
    settle(first)
    settle(last)
    with first.socket() as it:
        it.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
    resets = first.unread > 0 and not first.reset
    first.epoll.close()
    os.close(first.number)
    limit = time.monotonic() + SECONDS
    wanted = select.POLLHUP if resets else select.POLLRDHUP
    while not state(last) & wanted and time.monotonic() < limit:
        time.sleep(0.0005)
    if resets and (first.is_deaf or last.is_deaf):
        last.epoll.close()
        return os.close(last.number)  # Linux tells the peer or not, by the order of packets.
    run.say(last.name, "after close", "reset" if resets else "end", words_of(state(last) & ~select.POLLOUT))
    for _ in range(3):
        run.attempt(last, "read", lambda: os.read(last.number, 100_000))
    if resets:  # Else TCP learns by this that nobody is there.
        run.attempt(last, "send", lambda: send_bytes(last.number, b"x", 0))
    last.epoll.close()
    os.close(last.number)


def main():
    address, first, amount = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    is_urgent = sys.argv[4:] == ["urgent"]
    for seed in range(first, first + amount):
        run = Run(seed, address, URGENT_KINDS if is_urgent else KINDS)
        if is_urgent:
            urgent_calls.begin(run)
        for _ in range(CALLS):
            run.step()
        finish(run)



if __name__ == "__main__":
    main()
