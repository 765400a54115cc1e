#!/usr/bin/env python3
"""Another user who takes every name first that Verbatim might use, abstract sockets and folders in /tmp, keeps no
program from running."""

import contextlib
import os
import socket
import struct
import subprocess
import sys

from kit import Failure, Testbed, SKIPPED, enter_user_namespace, option_parser, wait_until

NOBODY = 65534
SECONDS_MAX = 8  # A lock that another user could hold was waited for longer than this.
CANDIDATES = 16  # RuntimeFolder::kCandidates
PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs")
IN_OWN_MOUNTS = "VERBATIM_TEST_OWN_MOUNTS"


@contextlib.contextmanager
def another_user(work):
    """Starts a process of another user, which executes `work` and then waits."""
    reading, writing = os.pipe()
    done_reading, done_writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(writing)
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            held = work()
            os.write(done_writing, b"1")
            os.read(reading, 1)
            del held
        finally:
            os._exit(0)
    os.close(reading)
    os.close(done_writing)
    try:
        if os.read(done_reading, 1) != b"1":
            raise Failure("the other user could not do its work")
        yield
    finally:
        for descriptor in (writing, done_reading):
            os.close(descriptor)
        os.waitpid(child, 0)


def abstract_sockets(*names):
    """Binds each name, as a datagram and as a stream socket."""
    held = []
    for name in names:
        for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
            one = socket.socket(socket.AF_UNIX, kind)
            one.bind(b"\0" + name)
            held.append(one)
    return held


def check_domain(testbed):
    """Takes the names of XRC domains' locks, from when they were abstract sockets."""
    keeper = testbed.start("a", ["cat"], stdin=subprocess.PIPE)
    guid = wait_until(lambda: testbed.node_status("a"), SECONDS_MAX, "node a")["guid"]
    guid = int(guid.replace(":", ""), 16)
    path = os.path.join(testbed.folder, "domain")
    with open(path, "wb"):
        info = os.stat(path)
    name = f"verbatim-xrc/{guid:x}/{info.st_dev:x}/{info.st_ino:x}".encode()
    with another_user(lambda: abstract_sockets(name)):
        testbed.start("a", [f"{testbed.build}/bin/domain_opener", path]).expect_success(SECONDS_MAX)
    keeper.kill()
    print("an XRC domain whose name is taken: ok", flush=True)


def check_forking_server(testbed):
    """Takes the name of the lock of an rsocket server that forks."""
    port = testbed.free_port()
    address = struct.pack("!4s8x", socket.inet_aton(testbed.address("a")))
    name = b"verbatim/rspreload/\0" + struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + address
    words = ["env", f"LD_PRELOAD={testbed.build}/lib/rsocket/librspreload.so.1", "RDMAV_FORK_SAFE=1",
             "/usr/bin/python3", f"{PROGRAMS}/forking.py", "asks"]
    with another_user(lambda: abstract_sockets(name)):
        server = testbed.start_server("a", [*words, "server", testbed.address("a"), str(port)], port)
        testbed.start("b", [*words, "client", testbed.address("a"), str(port)]).expect_success(4 * SECONDS_MAX)
        server.expect_success(SECONDS_MAX)
    print("a forking server whose name is taken: ok", flush=True)


def squat_folders(numbers):
    """Creates a folder, a link, a folder that everyone may write to, a file..."""
    for number in numbers:
        path = "/tmp/verbatim-0" + (f".{number}" if number else "")
        if number % 4 == 0:
            os.mkdir(path, 0o700)
        elif number % 4 == 1:
            os.symlink("/var/tmp", path)
        elif number % 4 == 2:
            os.mkdir(path)
            os.chmod(path, 0o777)
        else:
            with open(path, "wb"):
                pass


def run_at_once(build, count, **variables):
    """Runs `count` programs of one node at the same time; returns their exit statuses and outputs."""
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("VERBATIM") and name != "XDG_RUNTIME_DIR"}
    command = [f"{build}/bin/verbatim", "run", "--node", "squatted", "--address", "127.80.0.1", "--",
               f"{build}/bin/domain_opener", "/tmp/domain"]
    programs = [subprocess.Popen(command, env=environment | variables, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True) for _ in range(count)]
    return [(program.communicate(timeout=60)[0], program.returncode) for program in programs]


def check_folders(build):
    """In a private /tmp."""
    with another_user(lambda: squat_folders(range(6))):
        for output, status in run_at_once(build, 4):
            if status != 0:
                raise Failure(f"with six names in /tmp taken, a program ended with {status}: {output}")
    wait_until(lambda: not os.path.exists("/tmp/verbatim-0.6"), SECONDS_MAX, "the agent to leave")
    with another_user(lambda: squat_folders(range(6, CANDIDATES))):
        (output, status), = run_at_once(build, 1)
        if status == 0 or "XDG_RUNTIME_DIR" not in output:
            raise Failure(f"with all names in /tmp taken: status {status}, {output}")
        os.mkdir("/tmp/own", 0o700)
        (output, status), = run_at_once(build, 1, XDG_RUNTIME_DIR="/tmp/own")
        if status != 0:
            raise Failure(f"with a runtime directory a program ended with {status}: {output}")
    print("folders in /tmp that are taken: ok", flush=True)


def can_be_nobody():
    return subprocess.run(["setpriv", "--reuid", str(NOBODY), "--clear-groups", "true"], stderr=subprocess.DEVNULL,
                          check=False).returncode == 0


def main():
    options = option_parser(__doc__).parse_args()
    if os.geteuid() != 0 or not can_be_nobody():
        print("skipped: needs root, to be another user")
        return SKIPPED
    enter_user_namespace()
    if IN_OWN_MOUNTS in os.environ:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=1777", "tmpfs", "/tmp"], check=True)
        try:
            check_folders(os.path.abspath(options.build))
        except Failure as failure:
            print(f"FAILED: {failure}")
            return 1
        return 0
    with Testbed(options) as testbed:
        check_domain(testbed)
        check_forking_server(testbed)
    if os.path.abspath(options.build).startswith("/tmp/"):
        print("skipped: the build is in /tmp, which is to be another one")
        return SKIPPED
    return subprocess.run(["unshare", "--mount", sys.executable, "-B", *sys.argv], check=False,
                          env=os.environ | {IN_OWN_MOUNTS: "1"}).returncode


if __name__ == "__main__":
    sys.exit(main())
