#!/usr/bin/python3
"""Servers whose processes use one connection one after another, and their client; they know nothing of RDMA.
`heirs.py server|client ADDRESS PORT [CASE...]` prints a line for each thing that a process finds. What it prints on TCP is
what it must print on any other carrier."""

import os
import select
import signal
import socket
import sys

from heirs_actors import Actors, plans
from heirs_busy import Busy
from heirs_help import (DATA, SECONDS, SHARED, expect_bytes, expect_line, failure, in_child, line, piece_of, read_all, say,
                        wait)
from heirs_stranger import Stranger


class Turns:
    """The parent greets, children talk, the parent talks again, as sshd's processes do."""

    @staticmethod
    def server(connection):
        connection.sendall(b"220 ready\n")
        expect_line(connection, "parent")
        for number in range(3):
            def talk(number=number):
                expect_line(connection, f"child {number}")
                connection.sendall(f"child {number}\n".encode())
            wait(in_child(talk))
            expect_line(connection, "parent")
            connection.sendall(b"parent\n")

    @staticmethod
    def client(connection):
        expect_line(connection, "client")
        connection.sendall(b"hello\n")
        for number in range(3):
            connection.sendall(f"for child {number}\nfor parent\n".encode())
            expect_line(connection, "client")
            expect_line(connection, "client")


class Large:
    """A child echoes what half a message of its parent began, to the end of it."""

    @staticmethod
    def server(connection):
        begin = connection.recv(1000, socket.MSG_WAITALL)
        connection.sendall(begin)

        def echo():
            while data := connection.recv(100_000):
                connection.sendall(data)
            connection.sendall(b"the end\n")

        wait(in_child(echo))

    @staticmethod
    def client(connection):
        connection.sendall(DATA[:10])
        sender = in_child(lambda: (connection.sendall(DATA[10:]), connection.shutdown(socket.SHUT_WR)))
        found = read_all(connection)
        say("client reads", len(found), found == DATA + b"the end\n")
        wait(sender)


class ParentCloses:
    @staticmethod
    def server(connection):
        connection.sendall(b"220 ready\n")
        ready, go = os.pipe()

        def talk():
            os.read(ready, 1)
            connection.sendall(line(connection) * 1000)

        child = in_child(talk)
        connection.close()
        os.write(go, b"x")
        wait(child)
        os.close(ready)
        os.close(go)

    @staticmethod
    def client(connection):
        expect_line(connection, "client")
        connection.sendall(b"question\n")
        say("client reads", len(read_all(connection)))


class ParentExits:
    """The process that greets ends before its child does."""

    @staticmethod
    def server(connection):
        ended, end = os.pipe()

        def greet():
            connection.sendall(b"220 ready\n")

            def talk():
                for _ in range(2):
                    connection.sendall(line(connection))
                os.write(end, b"x")

            in_child(talk)

        child = in_child(greet)
        connection.close()
        os.read(ended, 1)
        wait(child)
        os.close(ended)
        os.close(end)

    @staticmethod
    def client(connection):
        for word in (b"one\n", b"two\n"):
            expect_line(connection, "client")
            connection.sendall(word)
        expect_line(connection, "client")
        say("client reads", read_all(connection))


class Siblings:
    """Two children that are there at the same time read one after the other; what one has left, the other gets."""

    @staticmethod
    def server(connection):
        connection.sendall(b"220 ready\n")
        first, second = os.pipe(), os.pipe()

        def talk(who, turn):
            os.read(turn[0], 1)
            say(who, "reads", connection.recv(5, socket.MSG_WAITALL))
            connection.sendall(f"{who}\n".encode())

        children = [in_child(lambda: talk("first", first)), in_child(lambda: talk("second", second))]
        for child, turn in zip(children, (first, second)):
            os.write(turn[1], b"x")
            wait(child)
        say("parent reads", connection.recv(5, socket.MSG_WAITALL))
        connection.sendall(b"parent\n")
        for number in (*first, *second):
            os.close(number)

    @staticmethod
    def client(connection):
        connection.sendall(b"aaaaabbbbbccccc")
        for _ in range(4):
            expect_line(connection, "client")


class Program:
    """A child becomes another program, with the connection as its standard input and output."""

    argv = (sys.executable, "-c", "import os\nwhile data := os.read(0, 65536):\n"
            "    while data: data = data[os.write(1, data):]\n")

    @classmethod
    def server(cls, connection):
        connection.sendall(b"220 ready\n")
        expect_line(connection, "parent")

        def become():
            os.dup2(connection.fileno(), 0)
            os.dup2(0, 1)
            os.execv(cls.argv[0], cls.argv)

        child = in_child(become)
        connection.close()
        wait(child)

    @staticmethod
    def client(connection):
        expect_line(connection, "client")
        connection.sendall(b"now\n")
        connection.sendall(DATA[:200_000])
        connection.shutdown(socket.SHUT_WR)
        say("client reads", read_all(connection) == DATA[:200_000])


class PlainProgram(Program):
    """One that does without any library."""

    argv = ("/usr/bin/env", "-u", "LD_PRELOAD", "cat")


class Names:
    @staticmethod
    def server(connection):
        connection.sendall(b"220 ready\n")
        names = connection.getsockname(), connection.getpeername()
        kind = socket.SOL_SOCKET, socket.SO_TYPE

        def look():
            say("same names", (connection.getsockname(), connection.getpeername()) == names)
            say("type", connection.getsockopt(*kind), "family", connection.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

        wait(in_child(look))
        say("parent has the same names", (connection.getsockname(), connection.getpeername()) == names)

    @staticmethod
    def client(connection):
        expect_line(connection, "client")
        say("client reads", read_all(connection))


class Unread:
    """All processes close, with something unread: a reset."""

    @staticmethod
    def server(connection):
        connection.sendall(b"220 ready\n")
        expect_line(connection, "parent")

        def leave():
            connection.recv(3, socket.MSG_PEEK | socket.MSG_WAITALL)

        wait(in_child(leave))

    @staticmethod
    def client(connection):
        expect_line(connection, "client")
        connection.sendall(b"read\nunread")
        say("client finds", failure(lambda: connection.recv(1)))


class Killed:
    """A child is killed; its parent goes on."""

    @staticmethod
    def server(connection):
        connection.sendall(b"220 ready\n")

        def die():
            expect_line(connection, "child")
            os.kill(os.getpid(), signal.SIGKILL)

        wait(in_child(die))
        expect_line(connection, "parent")

    @staticmethod
    def client(connection):
        expect_line(connection, "client")
        connection.sendall(b"one\ntwo\n")
        say("client reads", read_all(connection))


class Passed:
    """A connection in use goes to another process in a message."""

    @staticmethod
    def server(connection):
        ours, theirs = socket.socketpair()

        def take():
            _, numbers, _, _ = socket.recv_fds(theirs, 1, 1)
            with socket.socket(fileno=numbers[0]) as got:
                expect_line(got, "other")
                got.sendall(b"other\n")

        child = in_child(take)
        connection.sendall(b"220 ready\n")
        expect_line(connection, "parent")
        socket.send_fds(ours, [b"x"], [connection.fileno()])
        wait(child)
        expect_line(connection, "parent")
        connection.sendall(b"parent\n")
        ours.close()
        theirs.close()

    @staticmethod
    def client(connection):
        expect_line(connection, "client")
        connection.sendall(b"one\ntwo\nthree\n")
        say("client reads", read_all(connection))


class Waits:
    """A child waits by select, poll and epoll, without blocking."""

    @staticmethod
    def server(connection):
        connection.sendall(b"220 ready\n")

        def by(how):
            connection.setblocking(False)
            if how == "select":
                select.select([connection], [], [], SECONDS)
            elif how == "poll":
                poll = select.poll()
                poll.register(connection, select.POLLIN)
                poll.poll(SECONDS * 1000)
            else:
                epoll = select.epoll()
                epoll.register(connection, select.EPOLLIN | (select.EPOLLET if how == "edge" else 0))
                epoll.poll(SECONDS)
            say(how, "then", connection.recv(100), failure(lambda: connection.recv(1)))
            connection.sendall(b"next\n")

        for how in ("select", "poll", "epoll", "edge"):
            wait(in_child(lambda how=how: by(how)))

    @staticmethod
    def client(connection):
        expect_line(connection, "client")
        for word in (b"a", b"b", b"c", b"d"):
            connection.sendall(word)
            expect_line(connection, "client")


class Untouched:
    """A child that does not use the connection changes nothing: it stays what it was, and its parent's close is none."""

    @staticmethod
    def server(connection):
        connection.sendall(b"220 ready\n")
        expect_line(connection, "parent")
        stay, leave = os.pipe()
        child = in_child(lambda: os.read(stay, 1))
        connection.sendall(b"parent\n")
        expect_line(connection, "parent")
        found = os.readlink(f"/proc/self/fd/{connection.fileno()}")
        say("kept", found.startswith("socket:") != SHARED)
        connection.close()
        os.write(leave, b"x")
        wait(child)
        os.close(stay)
        os.close(leave)

    @staticmethod
    def client(connection):
        expect_line(connection, "client")
        connection.sendall(b"one\ntwo\n")
        expect_line(connection, "client")
        say("client reads", read_all(connection))


class Random:
    """By seed: processes of up to three generations use one connection in turn, fork and leave."""

    @staticmethod
    def server(connection):
        for steps in plans():
            Actors(connection).play(steps)
        connection.close()

    @staticmethod
    def client(connection):
        at = 0
        for steps in plans():
            for actor, what, size in steps:
                if what == "write":
                    expect_bytes(connection, at, size)
                elif what == "read":
                    connection.sendall(piece_of(at, size))
                at += size
        say("client reads", read_all(connection))


CASES = {one.__name__: one for one in (Turns, Large, ParentCloses, ParentExits, Siblings, Program, PlainProgram, Names, Unread,
                                       Killed, Passed, Waits, Untouched, Busy, Stranger, Random)}


def main():
    role, address, port, *chosen = sys.argv[1:]
    signal.alarm(SECONDS)
    listener = socket.create_server((address, int(port))) if role == "server" else None
    Stranger.listener = listener
    for name in chosen or CASES:
        signal.alarm(SECONDS)
        say(name)
        connection = listener.accept()[0] if listener else socket.create_connection((address, int(port)))
        getattr(CASES[name], role)(connection)
        connection.close()


if __name__ == "__main__":
    main()
