#!/usr/bin/python3
"""What epoll tells about sockets, in one program that knows nothing of RDMA: `epoll_events.py ADDRESS`. It runs on TCP
as well, whose answers are the expected ones."""

import array
import errno
import fcntl
import os
import select
import signal
import socket
import sys
import termios
import threading

IN, OUT, ERR, HUP, RDHUP = select.EPOLLIN, select.EPOLLOUT, select.EPOLLERR, select.EPOLLHUP, select.EPOLLRDHUP
ET, ONESHOT = select.EPOLLET, select.EPOLLONESHOT
SECONDS = 20
CONNECTIONS = 1000


def expect(condition, what):
    if not condition:
        raise SystemExit(f"wrong: {what}")


def events_of(epoll, number, wanted, forbidden=0):
    """Waits until the number's events have these bits."""
    found = 0
    while found & wanted != wanted:
        got = dict(epoll.poll(SECONDS))
        expect(got, f"no event, while waiting for {wanted:#x} of {number}; so far {found:#x}")
        found = got.get(number, 0)
        expect(found & forbidden == 0, f"{found:#x} has a bit of {forbidden:#x}")
    return found


def nothing(epoll):
    got = epoll.poll(0.02)
    expect(not got, f"events {got} without a reason")


def pair(listener):
    """Two ends. rsockets have no kernel that accepts before the program does."""
    ends = []
    accepting = threading.Thread(target=lambda: ends.append(listener.accept()[0]))
    accepting.start()
    ends.append(socket.create_connection(listener.getsockname()))
    accepting.join()
    return ends[::-1]


def level(listener):
    """Reported as long as there is something to read; together with a pipe."""
    client, server = pair(listener)
    reading, writing = os.pipe()
    with select.epoll() as epoll:
        epoll.register(server, IN)
        epoll.register(reading, IN)
        nothing(epoll)
        client.sendall(b"12345678")
        for _ in range(3):
            events_of(epoll, server.fileno(), IN)
        size = array.array("i", [0])
        fcntl.ioctl(server, termios.FIONREAD, size)
        expect(size[0] == 8, f"FIONREAD says {size[0]}")
        expect(server.recv(4) == b"1234", "the data")
        events_of(epoll, server.fileno(), IN)
        expect(server.recv(4) == b"5678", "the rest")
        nothing(epoll)
        os.write(writing, b"x")
        events_of(epoll, reading, IN)
        client.sendall(b"y")
        seen = set()
        while len(seen) < 2:
            seen |= {number for number, _ in epoll.poll(SECONDS)}
        os.read(reading, 1)
        server.recv(1)
        nothing(epoll)
        epoll.modify(server, IN | OUT)
        events_of(epoll, server.fileno(), OUT, IN)
        epoll.modify(server, 0)
        nothing(epoll)
        epoll.unregister(server)
        client.sendall(b"z")
        nothing(epoll)
        for call, code in ((lambda: epoll.unregister(server), errno.ENOENT), (lambda: epoll.register(reading), errno.EEXIST)):
            try:
                call()
                expect(False, "a call that must fail")
            except OSError as error:
                expect(error.errno == code, f"{error} instead of {code}")
    for end in (client, server):
        end.close()
    os.close(reading)
    os.close(writing)


def edge(listener):
    """Reported once for each arrival."""
    client, server = pair(listener)
    with select.epoll() as epoll:
        epoll.register(server, IN | ET)
        client.sendall(b"a")
        events_of(epoll, server.fileno(), IN)
        nothing(epoll)
        client.sendall(b"b")
        events_of(epoll, server.fileno(), IN)
        nothing(epoll)
        epoll.modify(server, IN | ET)
        events_of(epoll, server.fileno(), IN)
        expect(server.recv(9) == b"ab", "the data")
        nothing(epoll)
        epoll.modify(server, IN | ONESHOT)
        client.sendall(b"c")
        events_of(epoll, server.fileno(), IN)
        client.sendall(b"d")
        nothing(epoll)
        epoll.modify(server, IN | ONESHOT)
        events_of(epoll, server.fileno(), IN)
    client.close()
    server.close()


def room(listener):
    """Writable until the peer reads no more; an edge when it reads again."""
    client, server = pair(listener)
    client.setblocking(False)
    with select.epoll() as epoll:
        epoll.register(client, OUT | ET)
        events_of(epoll, client.fileno(), OUT)
        sent = 0
        try:
            while True:
                sent += client.send(bytes(65_536))
        except BlockingIOError:
            pass
        while (got := epoll.poll(0.02)) and got[0][1] & OUT:  # TCP may find a little more room.
            try:
                while True:
                    sent += client.send(bytes(65_536))
            except BlockingIOError:
                pass
        left = sent
        while left > 0:
            left -= len(server.recv(1 << 20))
        events_of(epoll, client.fileno(), OUT)
    client.close()
    server.close()


def ends(listener):
    """Half closed, closed by the peer, in both modes."""
    for mode in (0, ET):
        client, server = pair(listener)
        with select.epoll() as epoll:
            epoll.register(server, IN | RDHUP | mode)
            client.sendall(b"last")
            client.shutdown(socket.SHUT_WR)
            events_of(epoll, server.fileno(), IN | RDHUP, HUP)
            expect(server.recv(9) == b"last" and server.recv(9) == b"", "data and its end")
            server.sendall(b"answer")
            expect(client.recv(9) == b"answer", "the other direction")
            epoll.register(client, IN | RDHUP | mode)
            server.close()
            events_of(epoll, client.fileno(), IN | RDHUP | HUP)
        client.close()


def connects(listener):
    """Without waiting: writable when connected, an error when refused."""
    client = socket.socket()
    client.setblocking(False)
    with select.epoll() as epoll:
        code = client.connect_ex(listener.getsockname())
        expect(code in (0, errno.EINPROGRESS), f"connect says {code}")
        epoll.register(client, OUT)
        epoll.register(listener, IN)
        events_of(epoll, listener.fileno(), IN)
        server, _ = listener.accept()
        epoll.unregister(listener)
        events_of(epoll, client.fileno(), OUT, ERR | HUP)
        expect(client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0, "SO_ERROR of a connection")
        with socket.create_server((listener.getsockname()[0], 0)) as other:
            place = other.getsockname()
        refused = socket.socket()
        refused.setblocking(False)
        code = refused.connect_ex(place)
        if code == errno.EINPROGRESS:
            epoll.register(refused, OUT)
            events_of(epoll, refused.fileno(), OUT | ERR | HUP)
            code = refused.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        expect(code == errno.ECONNREFUSED, f"a refused connection says {code}")
        refused.close()
        epoll.unregister(client)
        epoll.register(listener, IN)
        nothing(epoll)
        second = socket.socket()
        second.setblocking(False)
        second.connect_ex(listener.getsockname())
        epoll.register(second, OUT)
        events_of(epoll, listener.fileno(), IN)
        third, _ = listener.accept()
        epoll.unregister(second)
        nothing(epoll)
    for end in (client, server, second, third):
        end.close()


def duplicates(listener):
    """A set forgets a socket with its last number."""
    client, server = pair(listener)
    with select.epoll() as epoll:
        epoll.register(server, IN)
        copy = server.dup()
        number = server.fileno()
        server.close()
        client.sendall(b"1")
        events_of(epoll, number, IN)
        expect(copy.recv(1) == b"1", "the data by a duplicate")
        copy.close()
        nothing(epoll)
    client.close()


def threads(listener):
    """A thread that sleeps hears of sockets that another adds, and of what another reads for it."""
    client, server = pair(listener)
    client.sendall(b"early")
    while server.recv(5, socket.MSG_PEEK | socket.MSG_WAITALL) != b"early":
        pass
    with select.epoll() as epoll:
        got = []
        sleeper = threading.Thread(target=lambda: got.extend(epoll.poll(SECONDS)))
        sleeper.start()
        epoll.register(server, IN)
        sleeper.join()
        expect(got == [(server.fileno(), IN)], f"the sleeper got {got}")
    client.close()
    server.close()


def signals(listener):
    """A signal ends a wait (PEP 475 repeats it, so the handler raises)."""
    client, server = pair(listener)

    def stop(*_):
        raise InterruptedError

    with select.epoll() as epoll:
        epoll.register(server, IN)
        before = signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        try:
            epoll.poll(SECONDS)
            expect(False, "a wait that a signal ends")
        except InterruptedError:
            pass
        signal.signal(signal.SIGALRM, before)
    client.close()
    server.close()


def used():
    """Descriptors, and kilobytes of memory."""
    with open("/proc/self/statm", encoding="ascii") as statm:
        return len(os.listdir("/proc/self/fd")), int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024


def leftovers(listener):
    """Connections that were opened and closed leave nothing."""
    before = None
    with select.epoll() as epoll:
        for count in range(CONNECTIONS):
            client, server = pair(listener)
            epoll.register(server, IN)
            client.sendall(b"x")
            events_of(epoll, server.fileno(), IN)
            client.close()
            server.close()
            if count == CONNECTIONS // 10:
                before = used()
        after = used()
        expect(after[0] <= before[0], f"descriptors: {before[0]}, then {after[0]}")
        expect(after[1] <= before[1] + 4096, f"kilobytes: {before[1]}, then {after[1]}")
        nothing(epoll)


def main():
    with socket.create_server((sys.argv[1], 0), backlog=16) as listener:
        for case in (level, edge, room, ends, connects, duplicates, threads, signals, leftovers):
            case(listener)
            print(case.__name__, "ok", flush=True)


if __name__ == "__main__":
    main()
