"""A program with RDS sockets, as the C library offers them: rds_sockets.py ADDRESS checks names, options, waiting,
descriptors and errors. It talks to itself alone."""

import ctypes
import errno
import os
import select
import socket
import struct
import subprocess
import sys

AF_RDS, SOL_RDS = 21, 276
CANCEL, RECVERR, MONITOR, TRANSPORT = 1, 5, 6, 8
INFO_SOCKETS, INFO_COUNTERS = 10006, 10000
CHILD = """
import os, socket, sys
taken = socket.socket(fileno=int(sys.argv[1]))
os.write(1, taken.recv(100))
"""


def rds_socket(*address):
    made = socket.socket(AF_RDS, socket.SOCK_SEQPACKET)
    if address:
        made.bind(address)
    return made


def refused(call, *words):
    try:
        call(*words)
    except OSError as error:
        return error.errno
    raise AssertionError(f"{call} is not refused")


def check_names(own):
    one = rds_socket()
    assert refused(one.getpeername) == errno.ENOTCONN
    assert refused(one.sendto, b"x", (own, 5)) == errno.ENOTCONN
    assert refused(one.bind, ("0.0.0.0", 0)) == errno.EINVAL
    assert refused(one.bind, ("127.255.255.254", 0)) in (errno.EADDRNOTAVAIL, errno.ENOPROTOOPT)
    one.bind((own, 0))
    address, port = one.getsockname()
    assert address == own and port > 1
    assert refused(one.bind, (own, 0)) == errno.EINVAL
    assert refused(rds_socket().bind, (own, port)) == errno.EADDRINUSE
    assert refused(one.send, b"x") == errno.ENOTCONN
    one.connect((own, port))
    assert one.getpeername() == (own, port)
    one.send(b"to myself")
    assert one.recvfrom(100) == (b"to myself", (own, port))
    assert refused(one.listen) == errno.EOPNOTSUPP
    assert refused(socket.socket, AF_RDS, socket.SOCK_STREAM) == errno.ESOCKTNOSUPPORT
    one.close()
    rds_socket(own, port).close()  # The port is free again.


def check_options(own):
    one = rds_socket()
    one.setsockopt(SOL_RDS, TRANSPORT, 0)
    assert refused(one.setsockopt, SOL_RDS, TRANSPORT, 2) == errno.ENOPROTOOPT
    one.bind((own, 0))
    assert one.getsockopt(SOL_RDS, TRANSPORT) == 0
    one.setsockopt(SOL_RDS, MONITOR, 1)
    one.setsockopt(SOL_RDS, RECVERR, 1)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 300000)
    assert one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 600000
    assert one.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN) == AF_RDS
    assert refused(one.setsockopt, SOL_RDS, 99, 0) == errno.ENOPROTOOPT
    one.setsockopt(SOL_RDS, CANCEL, struct.pack("=HH4s8x", socket.AF_INET, 5, socket.inet_aton(own)))
    assert len(one.getsockopt(SOL_RDS, INFO_SOCKETS, 1024)) % 28 == 0
    assert b"recv_ping" in one.getsockopt(SOL_RDS, INFO_COUNTERS, 1024)


def check_messages(own):
    here, there = rds_socket(own, 0), rds_socket(own, 0)
    for size in (0, 1, 4096, 100_000, 128 << 10, (128 << 10) + 1, 1 << 20):
        content = os.urandom(size)
        assert here.sendto(content, there.getsockname()) == size
        assert there.recvfrom(1 << 20) == (content, here.getsockname())
    assert refused(here.sendto, bytes((1 << 20) + 1), there.getsockname()) == errno.EMSGSIZE
    here.sendto(b"cut short", there.getsockname())
    content, _, flags, _ = there.recvmsg(3)
    assert content == b"cut" and flags & socket.MSG_TRUNC
    for size in (9, 200_000):
        here.sendto(bytes(size), there.getsockname())
        assert there.recv(3, socket.MSG_PEEK) == b"\0\0\0"
        assert len(there.recv(1 << 20)) == size
    assert there.sendmsg([b"in ", b"pieces"], [], 0, here.getsockname()) == 9
    first, second = bytearray(3), bytearray(100)
    assert here.recvmsg_into([first, second])[0] == 9 and first == b"in "
    os.set_blocking(here.fileno(), False)
    assert refused(here.recv, 1) == errno.EAGAIN
    here.sendto(b"", (own, 0))  # Ping.
    assert select.select([here], [], [], 20)[0] and here.recvfrom(1) == (b"", (own, 0))


def check_pieces(own):
    """What is wrong with the pieces of a message is found before any is read or written."""
    one = rds_socket(own, 0)
    one.connect(one.getsockname())
    libc = ctypes.CDLL(None, use_errno=True)

    class Piece(ctypes.Structure):
        _fields_ = (("base", ctypes.c_void_p), ("bytes", ctypes.c_size_t))

    pieces = (Piece * 1025)()
    for call in (libc.writev, libc.readv):
        for count in (-1, -(1 << 31), 1025):
            ctypes.set_errno(0)
            assert call(one.fileno(), pieces, count) == -1 and ctypes.get_errno() == errno.EINVAL, (call, count)
    for sizes, error in (((1 << 63, 1 << 63), errno.EINVAL), ((1 << 20, 1), errno.EMSGSIZE),
                         ((1 << 62, 1 << 62, 1 << 62, 1 << 62), errno.EMSGSIZE)):
        for piece, size in zip(pieces, sizes):
            piece.bytes = size
        assert libc.writev(one.fileno(), pieces, len(sizes)) == -1 and ctypes.get_errno() == error, sizes
    assert refused(one.recv, 1, socket.MSG_DONTWAIT) == errno.EAGAIN


def check_waiting(own):
    one = rds_socket(own, 0)
    waits = select.epoll()
    waits.register(one, select.EPOLLIN)
    poll = select.poll()
    poll.register(one, select.POLLIN | select.POLLOUT)
    assert not waits.poll(0) and poll.poll(0) == [(one.fileno(), select.POLLOUT)]
    one.sendto(b"x", one.getsockname())
    assert waits.poll(20) and poll.poll(20000)[0][1] & select.POLLIN
    one.settimeout(0.01)
    one.recv(1)
    try:
        one.recv(1)
        raise AssertionError("nothing has come")
    except TimeoutError:
        pass


def check_congestion(own):
    """A port whose program does not read is refused, and only that one; then it is told of."""
    here, deaf, there = rds_socket(own, 0), rds_socket(own, 0), rds_socket(own, 0)
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 100_000)
    here.setsockopt(SOL_RDS, MONITOR, 1)
    here.setblocking(False)
    sent = 0
    while True:
        try:
            here.sendto(bytes(50_000), deaf.getsockname())
        except OSError as error:
            if error.errno == errno.ENOBUFS:
                break
            assert error.errno == errno.EAGAIN
            select.select([], [here], [])
            continue
        sent += 1
        # All that is sent has come before the next question.
        here.getsockopt(SOL_RDS, TRANSPORT)
    here.sendto(b"goes on", there.getsockname())
    assert there.recv(100) == b"goes on"
    for _ in range(sent):
        assert len(deaf.recv(1 << 20)) == 50_000
    assert select.select([here], [], [], 20)[0]
    content, control, _, _ = here.recvmsg(100, 100)
    assert content == b"" and control == [(SOL_RDS, 5, struct.pack("Q", 1 << deaf.getsockname()[1] % 64))]
    here.sendto(b"again", deaf.getsockname())
    assert deaf.recv(100) == b"again"


def check_descriptors(own):
    one = rds_socket(own, 0)
    place = one.getsockname()
    two = one.dup()
    one.close()
    assert two.getsockname() == place
    child = os.fork()
    if child == 0:
        two.sendto(two.recv(100) + b" by a child", place)
        os._exit(0)
    two.sendto(b"read", place)
    os.waitpid(child, 0)
    assert two.recv(100) == b"read by a child"
    two.sendto(b"after exec", place)
    os.set_inheritable(two.fileno(), True)
    done = subprocess.run([sys.executable, "-c", CHILD, str(two.fileno())], close_fds=False, stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"after exec"


def main():
    own = sys.argv[1]
    for check in (check_names, check_options, check_messages, check_pieces, check_waiting, check_congestion,
                  check_descriptors):
        check(own)
        print(f"{check.__name__}: ok", flush=True)


main()
