#!/usr/bin/python3
"""A server and a client that know nothing of RDMA, with many connections:

    many_sockets.py server ADDRESS PORT
    many_sockets.py client ADDRESS PORT TOTAL AT_ONCE
    many_sockets.py crowd ADDRESS PORT AMOUNT

The server answers each byte until its client closes. The crowd begins AMOUNT connections before it waits for any, as wrk does,
and ends when each has had its answers. The client opens AT_ONCE connections, sends a byte on each and gets it
back, and closes them, until it has had TOTAL. Then it must have as many descriptors as after the first ones, and hardly more
memory, and says what a connection cost it."""

import os
import resource
import select
import socket
import sys
import time

RISE_MOST = 24 << 20  # Bytes of memory, whatever TOTAL is.
QUESTIONS = 3  # Of each connection of a crowd.
SILENCE_MOST = 30  # Seconds without an event for a crowd.


def serve(address, port):
    listener = socket.create_server((address, port), backlog=4096)
    listener.setblocking(False)
    epoll = select.epoll()
    epoll.register(listener, select.EPOLLIN)
    connections = {}
    while True:
        for number, _ in epoll.poll():
            if number == listener.fileno():
                try:
                    connection, _ = listener.accept()
                except BlockingIOError:
                    continue
                connection.setblocking(False)
                connections[connection.fileno()] = connection
                epoll.register(connection, select.EPOLLIN | select.EPOLLRDHUP)
                continue
            try:
                data = connections[number].recv(100)
            except BlockingIOError:
                continue
            except ConnectionError:
                data = b""
            if data:
                connections[number].send(data)
            else:
                connections.pop(number).close()


def use_some(address, port, amount):
    connections = [socket.create_connection((address, port)) for _ in range(amount)]
    for connection in connections:
        connection.sendall(b"x")
    for connection in connections:
        if connection.recv(1) != b"x":
            raise RuntimeError("the answer is another byte")
    for connection in connections:
        connection.close()


def begin(address, port):
    connection = socket.socket()
    connection.setblocking(False)
    connection.connect_ex((address, port))
    return connection


def crowd(address, port, amount):
    connections = {connection.fileno(): connection for connection in (begin(address, port) for _ in range(amount))}
    questions = dict.fromkeys(connections, QUESTIONS)
    epoll = select.epoll()
    for number in connections:
        epoll.register(number, select.EPOLLOUT)
    while questions:
        events = epoll.poll(SILENCE_MOST)
        if not events:
            raise RuntimeError(f"{len(questions)} of {amount} connections have had no answer")
        for number, event in events:
            connection = connections[number]
            try:
                if event & select.EPOLLIN:
                    if connection.recv(1) != b"x":
                        raise RuntimeError("the answer is another byte")
                    questions[number] -= 1
                if questions[number] == 0:
                    del questions[number]
                    epoll.unregister(number)  # It stays open beside the others.
                    continue
                connection.send(b"x")
                epoll.modify(number, select.EPOLLIN)
            except BlockingIOError:
                continue  # Not connected yet.
    for connection in connections.values():
        connection.close()
    print(f"{amount} connections began together and had their answers", flush=True)
    return 0


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


def main():
    role, address, port, *rest = sys.argv[1:]
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if role == "server":
        return serve(address, int(port))
    if role == "crowd":
        return crowd(address, int(port), int(rest[0]))
    total, at_once = map(int, rest)
    use_some(address, int(port), at_once)
    before, memory, done = descriptors(), resident(), at_once
    used, begin = time.process_time(), time.monotonic()
    while done < total:
        use_some(address, int(port), min(at_once, total - done))
        done += at_once
    count = max(total - at_once, 1)
    print(f"{total} connections, {at_once} at once: {(time.process_time() - used) / count * 1e6:.0f} us of processor and "
          f"{(time.monotonic() - begin) / count * 1e6:.0f} us each; memory {memory >> 20} MiB and "
          f"{(resident() - memory) >> 10} KiB more later", flush=True)
    if descriptors() != before:
        raise RuntimeError(f"{descriptors()} descriptors, and {before} before")
    if resident() - memory > RISE_MOST:
        raise RuntimeError("connections have left memory behind")
    return 0


if __name__ == "__main__":
    sys.exit(main())
