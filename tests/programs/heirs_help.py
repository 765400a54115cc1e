"""What the processes of heirs.py have in common."""

import errno
import hashlib
import os
import signal

BYTES = 3_000_000
SECONDS = 60
SHARED = os.environ.get("HEIRS_CARRIER", "tcp") != "tcp"
DATA = b"".join(hashlib.sha256(str(number).encode()).digest() for number in range(BYTES // 32))


def say(*words):
    # With one call: several processes write.
    os.write(1, (" ".join(str(word) for word in words) + "\n").encode())


def in_child(work):
    """Runs it in a child and waits for its end."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(SECONDS)
            work()
            status = 0
        except BaseException as error:  # pylint: disable=broad-exception-caught
            say("child:", repr(error))
        os._exit(status)
    return child


def wait(child):
    say("child ended with", os.waitpid(child, 0)[1])


def line(connection):
    found = b""
    while not found.endswith(b"\n"):
        piece = connection.recv(1)
        if not piece:
            break
        found += piece
    return found


def expect_line(connection, who):
    say(who, "reads", line(connection))


def read_all(connection):
    return b"".join(iter(lambda: connection.recv(65536), b""))


def failure(call):
    try:
        return call()
    except OSError as error:
        return errno.errorcode[error.errno]


def piece_of(at, size):
    """The bytes that belong at this place of a conversation."""
    at %= len(DATA) - 200_000
    return DATA[at:at + size]


def expect_bytes(connection, at, size):
    found = b""
    while len(found) < size:
        piece = connection.recv(size - len(found))
        if not piece:
            break
        found += piece
    say("reads", len(found), found == piece_of(at, size))
