#!/usr/bin/python3
"""An ordinary program that knows nothing of RDMA: `lending.py server|client ADDRESS PORT` sends much by few blocking calls, to
readers of all sizes, in both directions, also when both send at once, one looks first, or one leaves in the middle. Prints the
processor time that it took."""

import hashlib
import os
import resource
import socket
import sys
import threading

MEBIBYTE = 1 << 20
READS = (MEBIBYTE, 200_000, 65536, 5000)
DATA = b"".join(hashlib.sha256(str(number).encode()).digest() for number in range(2 * MEBIBYTE // 32))
TIMES = int(os.environ.get("LENDING_TIMES", "200"))


def expect(what, found, wanted):
    if found != wanted:
        raise SystemExit(f"{what}: {found!r:.100}, not {wanted!r:.100}")


def read(connection, size, piece):
    found = bytearray()
    while len(found) < size:
        more = connection.recv(min(piece, size - len(found)))
        if not more:
            break
        found += more
    return bytes(found)


def each_size(connection, is_server):
    for size in READS:
        for length in (70_000, MEBIBYTE, 2 * MEBIBYTE - 7):
            if is_server:
                expect(f"{length} bytes by {size}", read(connection, length, size), DATA[:length])
                connection.sendall(b"x")
            else:
                connection.sendall(DATA[:length])
                expect("answer", connection.recv(1), b"x")


def crossing(connection, _):
    """Both send at once, and a thread of each reads."""
    sender = threading.Thread(target=connection.sendall, args=(DATA,))
    sender.start()
    expect("crossing", read(connection, len(DATA), 100_000), DATA)
    sender.join()


def looked_at(connection, is_server):
    if not is_server:
        return connection.sendall(DATA[:300_000])
    expect("the first bytes", read(connection, 5000, 5000), DATA[:5000])
    while not connection.recv(100_000, socket.MSG_PEEK):
        pass
    found = connection.recv(10, socket.MSG_PEEK)
    expect("peek", found, DATA[5000:5010])
    return expect("the rest", read(connection, 295_000, 64_000), DATA[5000:300_000])


def speed(connection, is_server):
    block = bytearray(MEBIBYTE)
    before = resource.getrusage(resource.RUSAGE_SELF)
    for _ in range(TIMES):
        if is_server:
            left = memoryview(block)
            while left:
                left = left[connection.recv_into(left):]
        else:
            connection.sendall(block)
    after = resource.getrusage(resource.RUSAGE_SELF)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{'server' if is_server else 'client'}: {spent * 1024 / TIMES:.3f} s of processor a GiB", flush=True)
    (connection.sendall if is_server else lambda byte: expect("done", connection.recv(1), byte))(b"d")


def left(connection, is_server):
    """One end goes away while it is lent to."""
    if is_server:
        connection.recv(1)
        return os._exit(0)
    try:
        for _ in range(100):
            connection.sendall(DATA)
        raise SystemExit("all was sent to nobody")
    except OSError:
        return None


def main():
    is_server, place = sys.argv[1] == "server", (sys.argv[2], int(sys.argv[3]))
    listener = socket.create_server(place) if is_server else None
    for case in (each_size, crossing, looked_at, speed, left):
        connection = listener.accept()[0] if is_server else socket.create_connection(place)
        with connection:
            case(connection, is_server)
        print("passed", case.__name__, flush=True)


if __name__ == "__main__":
    main()
