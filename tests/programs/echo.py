#!/usr/bin/python3
"""An ordinary program with sockets, that knows nothing of RDMA: `echo.py server ADDRESS PORT` sends back
what it gets, `echo.py client ADDRESS PORT` checks that it does."""

import os
import socket
import sys
import threading

SIZES = (1, 5000, 3_000_000)


def serve(address, port):
    with socket.create_server((address, port)) as listener:
        for _ in SIZES:
            connection, _ = listener.accept()
            while data := connection.recv(65536):
                connection.sendall(data)
            connection.close()


def ask(address, port):
    for size in SIZES:
        # With a time-out, Python's sockets are non-blocking and use poll.
        connection = socket.create_connection((address, port), timeout=None if size == 5000 else 30)
        sent = os.urandom(size)

        def send(to=connection, data=sent):
            to.sendall(data)
            to.shutdown(socket.SHUT_WR)

        sender = threading.Thread(target=send)
        sender.start()
        received = bytearray()
        while data := connection.recv(70000):
            received += data
        sender.join()
        connection.close()
        if bytes(received) != sent:
            raise SystemExit(f"{len(received)} bytes of {size} came back, or others")
        print(f"{size} bytes: ok", flush=True)


if __name__ == "__main__":
    {"server": serve, "client": ask}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))
