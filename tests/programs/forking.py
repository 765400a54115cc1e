#!/usr/bin/python3
"""An ordinary server that forks a child for each connection, and its client; they know nothing of RDMA.
`forking.py MODE server|client ADDRESS PORT`. MODE says how they use their connections: `asks` (the client speaks
first), `greets` (the server does), `waits` (both look with select before they read), `inetd` (the child takes the
connection as its standard input and output). There are CLIENTS connections, at the same time, which must be
rsockets. Two modes are for one program that is no rsockets' program: `tcp`, a server that greets, and `leaves`, a
client that leaves as soon as it hears something."""

import os
import select
import socket
import sys
import threading

CLIENTS = 8
CLIENTS_THAT_LEAVE = 2  # Each keeps the port for half a second, in case it had connected.
BYTES = 300_000
GREETING = b"220 ready\n"
SECONDS = 30


def clients(mode):
    return CLIENTS_THAT_LEAVE if mode == "leaves" else CLIENTS


def expect_rsocket(number, mode):
    """Only a socket that is still a TCP socket is a socket to the kernel."""
    found = os.readlink(f"/proc/self/fd/{number}")
    if found.startswith("socket:") != (mode in ("tcp", "leaves")):
        raise SystemExit(f"number {number} is {found}")


def serve(connection, mode):
    incoming = outgoing = connection.fileno()
    if mode == "inetd":
        incoming, outgoing = os.dup2(outgoing, 0), os.dup2(outgoing, 1)
        connection.close()
    if mode in ("greets", "tcp"):
        os.write(outgoing, GREETING)
    while True:
        if mode == "waits" and not select.select([incoming], [], [], SECONDS)[0]:
            raise SystemExit("nothing to read")
        data = os.read(incoming, 65536)
        expect_rsocket(incoming, mode)
        expect_rsocket(outgoing, mode)
        if not data:
            return
        while data:
            data = data[os.write(outgoing, data):]


def run_server(mode, address, port):
    with socket.create_server((address, port)) as listener:
        children = []
        for _ in range(clients(mode)):
            connection, _ = listener.accept()
            child = os.fork()
            if child == 0:
                listener.close()
                try:
                    serve(connection, mode)
                except BaseException as error:
                    print("child:", repr(error), file=sys.stderr, flush=True)
                    os._exit(1)
                os._exit(0)
            connection.close()
            children.append(child)
    statuses = [os.waitpid(child, 0)[1] for child in children]
    if any(statuses):
        raise SystemExit(f"children ended with {statuses}")


def receive(connection, size, mode):
    data = bytearray()
    while len(data) < size:
        if mode == "waits" and not select.select([connection], [], [], SECONDS)[0]:
            raise SystemExit("nothing to read")
        piece = connection.recv(size - len(data))
        if not piece:
            break
        data += piece
    return bytes(data)


def ask(mode, connection, failures):
    try:
        if mode == "leaves":
            connection.recv(1, socket.MSG_PEEK)
            return
        if mode in ("greets", "tcp") and receive(connection, len(GREETING), mode) != GREETING:
            raise SystemExit("no greeting")
        sent = os.urandom(BYTES)
        sender = threading.Thread(target=connection.sendall, args=(sent,))
        sender.start()
        received = receive(connection, len(sent), mode)
        sender.join()
        if received != sent:
            raise SystemExit(f"{len(received)} bytes of {len(sent)} came back, or others")
        expect_rsocket(connection.fileno(), mode)
        connection.shutdown(socket.SHUT_WR)
        if connection.recv(1):
            raise SystemExit("more came back")
    except BaseException as error:
        failures.append(repr(error))
    finally:
        connection.close()


def run_client(mode, address, port):
    # All connect before one is used, so that the children need the port at the same time. Every
    # other one is non-blocking and uses poll.
    connections = [socket.create_connection((address, port), timeout=SECONDS if number % 2 else None)
                   for number in range(clients(mode))]
    failures = []
    threads = [threading.Thread(target=ask, args=(mode, connection, failures)) for connection in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise SystemExit("\n".join(failures))


if __name__ == "__main__":
    {"server": run_server, "client": run_client}[sys.argv[2]](sys.argv[1], sys.argv[3], int(sys.argv[4]))
