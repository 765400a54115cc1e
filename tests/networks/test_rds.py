#!/usr/bin/env python3
"""RDS between two nodes: ping, programs that know only sockets, messages of up to 1 MiB, a receiver that reads late, a
broker that is killed, and what wrong set-ups say."""

import json
import os
import signal
import subprocess
import sys

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(TESTS, "programs"))

from testbed import Failure, Testbed, option_parser, wait_until  # noqa: E402

SECONDS = 100
PORT = 4000
SOCKETS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rds_sockets.py")


READER = """
import socket, sys
one = socket.socket(21, socket.SOCK_SEQPACKET)
one.bind((sys.argv[1], int(sys.argv[2])))
print("reads", flush=True)
while True:
    content, peer = one.recvfrom(100)
    print(content.decode(), flush=True)
    one.sendto(b"got it", peer)
"""
KILLER = """
import os, select, signal, socket, sys
own, peer, port, broker = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
one = socket.socket(21, socket.SOCK_SEQPACKET)
one.bind((own, 0))
for _ in range(2):
    one.sendto(b"before", (peer, port))
    assert one.recv(100) == b"got it"
gone = os.pidfd_open(broker)
os.kill(broker, signal.SIGKILL)
select.select([gone], [], [])
one.sendto(b"after", (peer, port))
print("sent", flush=True)
select.select([], [], [])
"""


class RdsNodes:
    """A testbed whose programs run with `--rds`."""

    faults = ""

    def __exit__(self, kind, error, trace):
        for node in self._addresses:
            self.rds("down", node, fails=None)
        return super().__exit__(kind, error, trace)

    def run_options(self, node):
        return [*super().run_options(node), "--rds", *(("--fault", self.faults) if self.faults else ())]

    def rds(self, command, node, *words, fails=False, **variables):
        options = [*super().run_options(node), *words]
        done = subprocess.run([f"{self.build}/bin/verbatim", "rds", command, *options], check=False,
                              env=self.environment() | variables, capture_output=True, text=True, timeout=SECONDS)
        if fails is not None and (done.returncode != 0) != fails:
            raise Failure(f"verbatim rds {command}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def shown(self, node):
        return json.loads(self.rds("show", node, "--json"))

    def session(self, node, *words):
        return self.start(node, [f"{self.build}/bin/rds_session", *map(str, words)])

    def start_session(self, node, *words):
        """Returns when its socket is bound: messages to a port where nobody is are lost."""
        program = self.session(node, *words)
        said = {"echo": "echoes", "drain": "drains"}[words[0]]
        wait_until(lambda: said in program.output() or program.ended(),
                   SECONDS, f"{words[0]} to begin")
        return program


class RdsTestbed(RdsNodes, Testbed):
    pass


def ping(testbed):
    a, b = testbed.address("a"), testbed.address("b")
    testbed.rds("up", "a")
    testbed.rds("up", "a")  # It is there already.
    told = testbed.rds("ping", "b", "-c", "3", "-i", "0.5", a)
    if told.count("usec") != 3:
        raise Failure(f"not three answers:\n{told}")
    if "no answer" not in testbed.rds("ping", "a", "-c", "1", "-i", "0.1", "127.255.255.254", fails=True):
        raise Failure("nobody answers, and nothing says so")
    if "usec" not in testbed.rds("ping", "a", "-c", "1", "-i", "20", a):
        raise Failure("a node does not answer itself")
    testbed.session("b", "ping", b, a, 10).expect_success(SECONDS)


def sockets(testbed):
    testbed.start("a", [sys.executable, SOCKETS, testbed.address("a")]).expect_success(SECONDS)


def messages(testbed):
    a, b = testbed.address("a"), testbed.address("b")
    echo = testbed.start_session("a", "echo", a, PORT)
    for count, size in ((100, 1024), (10, 0), (10, 4097), (10, 65536), (10, 1 << 20)):
        testbed.session("b", "ask", b, a, PORT, count, size).expect_success(SECONDS)
    peers = [one for one in testbed.shown("a")["peers"] if one["peer"] == b]
    if len(peers) != 1 or peers[0]["state"] != "up":
        raise Failure(f"one connection serves all programs: {peers}")
    if b not in testbed.rds("show", "a"):
        raise Failure("the peer is not shown")
    echo.kill()


def order(testbed):
    a, b = testbed.address("a"), testbed.address("b")
    drain = testbed.start_session("a", "drain", a, PORT + 1, 3000)
    testbed.session("b", "flood", b, a, PORT + 1, 3000, 5000).expect_success(SECONDS)
    drain.expect_success(SECONDS)


def memory(testbed):
    """READs, WRITEs and atomic operations in memory that programs lend, page by page and over pages' edges."""
    a, b = testbed.address("a"), testbed.address("b")
    program = f"{testbed.build}/bin/rds_memory"
    port = PORT + 10
    for count, words in ((20, ("lend", 20, 1)), (20, ("lend", 20, 5000)), (4, ("lend", 4, 1 << 20)), (10, ("add", 10)),
                         (2, ("wrong",))):
        port += 1
        user = testbed.start("a", [program, "use", a, str(port), str(count)])
        wait_until(lambda: "uses" in user.output() or user.ended(), SECONDS, "'use' to begin")
        verb, *numbers = words
        testbed.start("b", [program, verb, b, a, str(port), *map(str, numbers)]).expect_success(SECONDS)
        user.expect_success(SECONDS)


def late_reader(testbed):
    """The sender waits as long as the receiver stands still; another port does not."""
    a, b = testbed.address("a"), testbed.address("b")
    drain = testbed.start_session("a", "drain", a, PORT + 2, 400)
    os.killpg(drain.process.pid, signal.SIGSTOP)
    flood = testbed.session("b", "flood", b, a, PORT + 2, 400, 50_000)
    wait_until(lambda: any(one["congested"] for one in testbed.shown("a")["sockets"]), SECONDS, "congestion")
    echo = testbed.start_session("a", "echo", a, PORT + 3)
    testbed.session("b", "ask", b, a, PORT + 3, 10, 1024).expect_success(SECONDS)
    if flood.ended():
        raise Failure("the sender has not waited")
    os.killpg(drain.process.pid, signal.SIGCONT)
    flood.expect_success(SECONDS)
    drain.expect_success(SECONDS)
    echo.kill()


def killed_broker(testbed):
    """The peer's messages that were not acknowledged go to the next broker."""
    a, b = testbed.address("a"), testbed.address("b")
    os.kill(testbed.shown("a")["process"], signal.SIGKILL)
    testbed.rds("up", "a")
    echo = testbed.start_session("a", "echo", a, PORT)
    testbed.session("b", "ask", b, a, PORT, 10, 1024).expect_success(SECONDS)
    os.kill(testbed.shown("a")["process"], signal.SIGKILL)
    if echo.wait(SECONDS) == 0 or "Network is down" not in echo.output():
        raise Failure(f"a program whose broker is killed says: {echo.output()}")
    testbed.rds("up", "a")


def sent_after_a_kill(testbed):
    """What is sent after the receiver's broker was killed goes to the next one, however soon it is sent."""
    a, b = testbed.address("a"), testbed.address("b")
    port = str(PORT + 20)
    reader = testbed.start("a", [sys.executable, "-c", READER, a, port])
    wait_until(lambda: "reads" in reader.output() or reader.ended(), SECONDS, "the receiver")
    process = testbed.shown("a")["process"]
    sender = testbed.start("b", [sys.executable, "-c", KILLER, b, a, port, str(process)])
    wait_until(lambda: "sent" in sender.output() or sender.ended(), SECONDS, "the sender")
    reader.wait(SECONDS)
    testbed.rds("up", "a")  # Where nobody has the port: only the broker sees it.
    wait_until(lambda: any(one["peer"] == b and one["received"] for one in testbed.shown("a")["peers"]), SECONDS,
               "the message after the kill")
    sender.kill()


def bare_node(testbed):
    """Where nobody has started a broker, the node's agent does for a peer's request; and it ends again."""
    testbed.rds("down", "a", fails=None)
    options = [*Testbed.run_options(testbed, "a"), "--", "ibv_asyncwatch"]  # Any program: then there is an agent.
    program = subprocess.Popen([f"{testbed.build}/bin/verbatim", "run", *options], env=testbed.environment(),
                               stdout=subprocess.PIPE)
    try:
        program.stdout.readline()  # It has opened the device.
        told = testbed.rds("ping", "b", "-c", "2", "-i", "20", testbed.address("a"))
        if told.count("usec") != 2:
            raise Failure(f"a bare node does not answer:\n{told}")
        broker = testbed.shown("a")["process"]
        wait_until(lambda: not os.path.exists(f"/proc/{broker}"), SECONDS, "the broker that was asked for to end")
        if "usec" not in testbed.rds("ping", "b", "-c", "1", "-i", "20", testbed.address("a")):
            raise Failure("no second broker is started")
    finally:
        program.kill()
        program.wait()


def ends_with_its_programs(testbed):
    testbed.rds("down", "b", fails=None)  # It may have ended with its last program.
    echo = testbed.start_session("b", "echo", testbed.address("b"), PORT)
    process = testbed.shown("b")["process"]
    echo.kill()
    wait_until(lambda: not os.path.exists(f"/proc/{process}"), SECONDS, "the broker to end")
    if "no RDS broker of 'b' runs" not in testbed.rds("show", "b", fails=True):
        raise Failure("what is not there is not shown as such")


def long_runtime_folder(testbed):
    """Programs could not reach the broker: it says so, and does not serve."""
    folder = os.path.join(testbed.folder, "x" * 100)
    os.mkdir(folder, 0o700)
    told = testbed.rds("up", "c", fails=True, XDG_RUNTIME_DIR=folder)
    if "set XDG_RUNTIME_DIR" not in told or "shorter" not in told:
        raise Failure(f"a long runtime folder: {told}")


PARTS = (ping, sockets, messages, order, memory, late_reader, killed_broker, sent_after_a_kill, bare_node,
         ends_with_its_programs, long_runtime_folder)


def main():
    options = option_parser(__doc__).parse_args()
    with RdsTestbed(options) as testbed:
        for part in PARTS:
            part(testbed)
            print(f"passed: {part.__name__}", flush=True)
    options.path = "wire"
    with RdsTestbed(options) as testbed:
        testbed.faults = "loss=1%,duplicate=1%,reorder=1%,seed=7"
        messages(testbed)
        order(testbed)
        memory(testbed)
        print("passed: faults", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
