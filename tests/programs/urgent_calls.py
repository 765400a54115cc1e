"""Calls of socket_calls.py that are about urgent data."""

import array
import fcntl
import os
import signal
import select
import socket
import time

from socket_ends import SECONDS, send_bytes, settle, state, waiting

SIOCATMARK = 0x8905


def begin(run):
    """`b` gets signals."""
    run.urged = 0

    def note(*_):
        run.urged += 1

    signal.signal(signal.SIGURG, note)
    fcntl.fcntl(run.b.number, fcntl.F_SETOWN, os.getpid())
    for end in (run.a, run.b):
        end.inline = 0


def is_at_mark(end):
    number = array.array("i", [7])
    fcntl.ioctl(end.number, SIOCATMARK, number)
    return number[0]


def view(end):
    """What another urgent byte changes, and no ordinary one that has come before."""
    with end.socket() as it:
        try:
            byte = it.recv(1, socket.MSG_OOB | socket.MSG_PEEK)
        except OSError:
            byte = b""
    return byte, waiting(end), is_at_mark(end), state(end) & select.POLLPRI


def send_urgent(run, end, peer):
    """Waits until the byte is there: what it does to an earlier one depends on SO_OOBINLINE, which `settle` changes to count."""
    settle(peer)
    passes_earlier = is_at_mark(peer) and not peer.inline  # It leaves the stream.
    before, sent = view(peer), end.sent
    run.send_by(end, peer, "send oob", run.random.choice((1, 1, 2, 100)),
                lambda data: send_bytes(end.number, data, socket.MSG_OOB | socket.MSG_NOSIGNAL))
    limit = time.monotonic() + SECONDS
    if end.sent > sent and passes_earlier:
        peer.unread -= 1
    while end.sent > sent and view(peer) == before and time.monotonic() < limit:
        time.sleep(0.0002)


def receive_urgent(run, end, _):
    flags = socket.MSG_OOB | run.random.choice((0, 0, socket.MSG_PEEK))
    with end.socket() as it:
        run.attempt(end, f"recv oob {flags}", lambda: it.recv(1, flags))


def change_inline(run, end, _):
    end.inline = run.random.randrange(2)
    with end.socket() as it:
        run.attempt(end, f"inline {end.inline}", lambda: it.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, end.inline))


def signals(run, end, _):
    if end is run.b:
        run.say("signals", run.urged > 0, "owner", fcntl.fcntl(end.number, fcntl.F_GETOWN) == os.getpid())
        run.urged = 0


KINDS = [(send_urgent, 8), (receive_urgent, 8), (change_inline, 1), (signals, 4)]
