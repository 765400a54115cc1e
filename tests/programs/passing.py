#!/usr/bin/python3
"""Servers that hand an accepted connection to another program, and their client; they know nothing of RDMA.
`passing.py MODE server|client ADDRESS PORT`. MODE says how: `exec` (as standard input and output of a program that a
child becomes), `message` (over a UNIX socket, to a program that runs already), `numbers`, `duplicates` (below)."""

import os
import socket
import subprocess
import sys

BYTES = 300_000
CLIENTS = 4


def expect_rsocket(number):
    """Only a socket that is still a TCP socket is a socket to the kernel."""
    found = os.readlink(f"/proc/self/fd/{number}")
    if found.startswith("socket:"):
        raise SystemExit(f"number {number} is {found}")


def echo(incoming, outgoing):
    while data := os.read(incoming, 65536):
        expect_rsocket(incoming)
        while data:
            data = data[os.write(outgoing, data):]


def take_messages(number):
    """The other program of mode `message`."""
    with socket.socket(fileno=number) as channel:
        for _ in range(CLIENTS):
            _, numbers, _, _ = socket.recv_fds(channel, 1, 1)
            echo(numbers[0], numbers[0])
            os.close(numbers[0])
            channel.send(b"x")


def echo_by_numbers(connection):
    """Each direction by a number of its own, and the first one is closed."""
    numbers = [os.dup(connection.fileno()), os.dup(connection.fileno())]
    connection.close()
    echo(*numbers)
    for number in numbers:
        os.close(number)


def echo_in_child(itself, connection):
    """As sshd does: a child makes its numbers, and becomes another program."""
    child = os.fork()
    if child == 0:
        os.dup2(connection.fileno(), 0)
        os.dup2(0, 1)
        os.execv(itself[0], [*itself, "echo"])
    if os.waitpid(child, 0)[1] != 0:
        raise SystemExit("the other program has failed")


def serve(mode, address, port):
    ours, theirs = socket.socketpair()
    itself = [sys.executable, os.path.abspath(__file__)]
    if mode == "message":
        helper = subprocess.Popen([*itself, "messages", str(theirs.fileno())], pass_fds=[theirs.fileno()])
    with socket.create_server((address, port)) as listener:
        for _ in range(CLIENTS):
            connection, _ = listener.accept()
            if mode == "numbers":
                echo_by_numbers(connection)
            elif mode == "duplicates":
                echo_in_child(itself, connection)
            elif mode == "exec":
                subprocess.run([*itself, "echo"], stdin=connection, stdout=connection, check=True)
            else:
                socket.send_fds(ours, [b"x"], [connection.fileno()])
                ours.recv(1)
            connection.close()
    if mode == "message" and helper.wait() != 0:
        raise SystemExit("the other program has failed")


def ask(address, port):
    for _ in range(CLIENTS):
        sent = os.urandom(BYTES)
        with socket.create_connection((address, port)) as connection:
            received = bytearray()
            for begin in range(0, BYTES, 10_000):
                connection.sendall(sent[begin:begin + 10_000])
                while len(received) < begin + 10_000:
                    received += connection.recv(65536)
            expect_rsocket(connection.fileno())
        if bytes(received) != sent:
            raise SystemExit("other bytes came back")


def main():
    if sys.argv[1] == "echo":
        echo(0, 1)
    elif sys.argv[1] == "messages":
        take_messages(int(sys.argv[2]))
    else:
        mode, role, address, port = sys.argv[1:]
        if role == "server":
            serve(mode, address, int(port))
        else:
            ask(address, int(port))


if __name__ == "__main__":
    main()
