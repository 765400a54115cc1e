#!/usr/bin/python3
"""An ordinary program with sockets, that knows nothing of RDMA, and gives them several descriptors:
`descriptors.py ADDRESS` connects to itself."""

import ctypes
import os
import select
import socket
import stat
import subprocess
import sys
import threading

LIBC = ctypes.CDLL(None, use_errno=True)
HIGH = 200  # An fd that is not in use.


def expect(what, found, wanted):
    if found != wanted:
        raise SystemExit(f"{what}: {found!r}, not {wanted!r}")


def pair(address):
    """Returns the fds of two connected sockets."""
    with socket.create_server((address, 0)) as listener:
        ends = []
        accepting = threading.Thread(target=lambda: ends.append(listener.accept()[0]))
        accepting.start()
        ends.append(socket.create_connection(listener.getsockname()[:2]))
        accepting.join()
    return [end.detach() for end in ends]


def expect_talk(ours, peer):
    os.write(ours, b"there")
    expect("read", os.read(peer, 100), b"there")
    os.write(peer, b"and back")
    expect("read", os.read(ours, 100), b"and back")


def expect_life_until_closed(last, peer):
    """Checks that the socket's last fd works, and that closing it ends the connection."""
    expect_talk(last, peer)
    os.close(last)
    expect("the end", os.read(peer, 1), b"")
    os.close(peer)


def the_first_number_is_closed_first(address):
    first, peer = pair(address)
    os.dup2(first, HIGH)
    os.close(first)
    null = os.open("/dev/null", os.O_RDONLY)
    expect("the number, now free", LIBC.fcntl(null, 0, first), first)
    expect("a file", os.read(first, 1), b"")
    expect_talk(HIGH, peer)
    os.close(HIGH)
    expect("the end", os.read(peer, 1), b"")
    for number in (peer, first, null):
        os.close(number)


def the_last_number_ends_the_connection(address):
    first, peer = pair(address)
    # dup3, F_DUPFD_CLOEXEC, F_DUPFD, and dup.
    os.dup2(first, HIGH, inheritable=False)
    numbers = [first, HIGH, os.dup(first), LIBC.fcntl(HIGH, 0, HIGH + 1), LIBC.dup(HIGH)]
    expect("F_DUPFD", numbers[3] > HIGH, True)
    for number in numbers:
        expect_talk(number, peer)
    while len(numbers) > 1:
        os.close(numbers.pop(len(numbers) // 2))
        for number in numbers:
            expect_talk(number, peer)
    expect("readable before the end", select.select([peer], [], [], 0)[0], [])
    os.close(numbers[0])
    expect("readable at the end", select.select([peer], [], [], 10)[0], [peer])
    expect("the end", os.read(peer, 1), b"")
    os.close(peer)


def another_takes_the_number(address):
    one, peer_of_one = pair(address)
    two, peer_of_two = pair(address)
    os.dup2(two, one)  # An rsocket over an rsocket.
    expect("the end of the first", os.read(peer_of_one, 1), b"")
    os.close(two)
    expect_talk(one, peer_of_two)
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, one)  # A file over an rsocket.
    expect("a file", os.read(one, 1), b"")
    expect("the end of the second", os.read(peer_of_two, 1), b"")
    for number in (one, null, peer_of_one, peer_of_two):
        os.close(number)


def a_number_that_has_duplicates_is_taken(address):
    one, peer = pair(address)
    os.dup2(one, HIGH)
    null = os.open("/dev/null", os.O_RDONLY)
    os.dup2(null, one)
    expect("a file", os.read(one, 1), b"")
    expect_talk(HIGH, peer)
    os.dup2(HIGH, one)  # And back again.
    os.close(HIGH)
    expect_talk(one, peer)
    expect("dup2 to itself", os.dup2(one, one), one)
    for number in (one, null):
        os.close(number)
    expect("the end", os.read(peer, 1), b"")
    os.close(peer)


def waiting_at_a_duplicate(address):
    one, peer = pair(address)
    os.dup2(one, HIGH)
    os.close(one)
    poll = select.poll()
    poll.register(HIGH, select.POLLIN)
    expect("nothing to read", poll.poll(0), [])
    writer = threading.Timer(0.05, lambda: os.write(peer, b"late"))
    writer.start()
    expect("something to read", poll.poll(10_000), [(HIGH, select.POLLIN)])
    writer.join()
    expect("read", os.read(HIGH, 100), b"late")
    expect("dup2 of nothing", LIBC.dup2(-1, HIGH), -1)
    expect_talk(HIGH, peer)
    os.close(HIGH)
    os.close(peer)


def a_listener_has_duplicates(address):
    with socket.create_server((address, 0)) as first:
        at = first.getsockname()[:2]
        listener = first.dup()
    client = []
    connecting = threading.Thread(target=lambda: client.append(socket.create_connection(at)))
    connecting.start()
    served = listener.accept()[0]
    connecting.join()
    expect_talk(served.fileno(), client[0].fileno())
    for end in (listener, served, *client):
        end.close()


def a_child_can_only_close(address):
    one, peer = pair(address)
    child = os.fork()
    if child == 0:
        os.close(one)
        os.dup2(os.open("/dev/null", os.O_RDONLY), peer)
        os._exit(0 if os.read(peer, 1) == b"" else 1)
    expect("the child's status", os.waitpid(child, 0)[1], 0)
    expect_life_until_closed(one, peer)


def a_child_of_vfork_changes_nothing(address):
    one, peer = pair(address)
    # The child gets the socket as standard input by this process's dup2 before exec.
    subprocess.run(["/bin/true"], stdin=one, check=True)
    expect("our own standard input", os.read(0, 1), b"")
    expect_life_until_closed(one, peer)


def a_socket_looks_like_one(address):
    one, peer = pair(address)
    expect("a socket", stat.S_ISSOCK(os.fstat(one).st_mode), True)
    os.close(one)
    os.close(peer)


def programs_that_check_the_size_of_buffers(address):
    one, peer = pair(address)
    for receive in (lambda to: LIBC.__read_chk(one, to, 5, 64), lambda to: LIBC.__recv_chk(one, to, 5, 64, 0),
                    lambda to: LIBC.__recvfrom_chk(one, to, 5, 64, 0, None, None)):
        buffer = ctypes.create_string_buffer(64)
        os.write(peer, b"bytes")
        expect("length", receive(buffer), 5)
        expect("bytes", buffer.value, b"bytes")
    os.close(one)
    os.close(peer)


def the_libraries_keep_theirs(address):
    """The program closes all that it knows, and more."""
    one, peer = pair(address)
    last = max(one, peer)
    for close_all in (lambda: os.closerange(last + 1, 1 << 16), lambda: LIBC.closefrom(last + 1)):
        os.dup2(os.open("/dev/null", os.O_RDONLY), HIGH, inheritable=True)
        close_all()
        expect("/dev/null is open", os.path.exists(f"/proc/self/fd/{HIGH}"), False)
        expect_talk(one, peer)
    expect_life_until_closed(one, peer)


if __name__ == "__main__":
    for check in (the_first_number_is_closed_first, the_last_number_ends_the_connection,
                  another_takes_the_number, a_number_that_has_duplicates_is_taken, waiting_at_a_duplicate,
                  a_listener_has_duplicates, a_child_can_only_close,
                  a_child_of_vfork_changes_nothing, a_socket_looks_like_one,
                  programs_that_check_the_size_of_buffers, the_libraries_keep_theirs):
        check(sys.argv[1])
        print(f"{check.__name__}: ok", flush=True)
