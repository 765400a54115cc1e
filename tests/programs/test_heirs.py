#!/usr/bin/env python3
"""Connections that several processes use one after another, over rsockets and SDP: each finds what it finds on TCP. And the
end of the process that has the queue pair is a reset."""

import os
import signal
import subprocess
import sys

from test_socket_calls import Carrier
from testbed import Failure, option_parser, wait_until

SECONDS = 120
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "heirs.py")


def by_tcp(testbed):
    port = str(testbed.free_port())
    words = ["/usr/bin/python3", PROGRAM]
    outputs = []
    with subprocess.Popen([*words, "server", "127.0.0.1", port], stdout=subprocess.PIPE, text=True) as server:
        def answers():
            with open("/proc/net/tcp", encoding="ascii") as table:
                return f":{int(port):04X} 00000000:0000 0A" in table.read()
        wait_until(answers, SECONDS, "the server to listen")
        client = subprocess.run([*words, "client", "127.0.0.1", port], check=True, capture_output=True, text=True,
                                timeout=SECONDS)
        outputs = [server.communicate(timeout=SECONDS)[0], client.stdout]
    return [output.splitlines() for output in outputs]


def said(program):
    return [line for line in program.output().splitlines() if not line.startswith("verbatim: ")]


def compare(testbed, carrier, wanted):
    testbed.options = [carrier]
    for node in "ab":
        testbed.set_variables(node, RDMAV_FORK_SAFE="1", HEIRS_CARRIER=carrier)
    port = testbed.free_port()
    words = ["/usr/bin/python3", PROGRAM]
    server = testbed.start_server("a", [*words, "server", testbed.address("a"), str(port)], port)
    client = testbed.start("b", [*words, "client", testbed.address("a"), str(port)])
    for program, lines in ((client, wanted[1]), (server, wanted[0])):
        status = program.wait(SECONDS)
        found = said(program)
        for number, (ours, tcps) in enumerate(zip(found, lines)):
            if ours != tcps:
                raise Failure(f"{carrier}, {program.name}: after {lines[max(0, number - 8):number]} TCP says {tcps!r}, and this "
                              f"is {ours!r}")
        if status != 0 or len(found) != len(lines):
            raise Failure(f"{carrier}, {program.name}: status {status}, {len(found)} lines instead of {len(lines)}")
    wait_until(lambda: not testbed.status("a") and not testbed.status("b"), SECONDS, "all to leave")
    print(f"{carrier}: {len(wanted[0])} and {len(wanted[1])} lines are TCP's", flush=True)


OWNER = """
import os, signal, socket, sys
with socket.create_server((sys.argv[1], int(sys.argv[2]))) as listener:
    connection = listener.accept()[0]
connection.sendall(b"1")
if os.fork() == 0:
    connection.sendall(b"2")
    print("owner", os.getppid(), flush=True)
    try:
        print("child reads", connection.recv(10), flush=True)
        connection.recv(10)
    except ConnectionResetError:
        print("child: reset", flush=True)
    os._exit(0)
connection.close()
signal.pause()
"""
CLIENT = """
import socket, sys
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
print("client reads", connection.recv(2, socket.MSG_WAITALL), flush=True)
connection.sendall(b"x")
try:
    print("client: end", connection.recv(1), flush=True)
except ConnectionResetError:
    print("client: end by reset", flush=True)
"""


def killed_owner(testbed, carrier):
    """Who has inherited the connection sees a reset; the peer sees what it sees of any process that is killed."""
    testbed.options = [carrier]
    port = testbed.free_port()
    place = [testbed.address("a"), str(port)]
    server = testbed.start_server("a", ["/usr/bin/python3", "-c", OWNER, *place], port)
    client = testbed.start("b", ["/usr/bin/python3", "-c", CLIENT, *place])
    wait_until(lambda: "child reads b'x'" in server.output(), SECONDS, "the child to read")
    os.kill(int(server.output().split("owner ")[1].split()[0]), signal.SIGKILL)
    for program, words in ((client, "client: end"), (server, "child: reset")):
        wait_until(lambda program=program, words=words: words in program.output(), SECONDS, f"{carrier}: {words}")
    client.expect_success(SECONDS)
    server.wait(SECONDS)
    print(f"{carrier}: a killed owner is a reset", flush=True)


def main():
    options = option_parser(__doc__).parse_args()
    with Carrier(options) as testbed:
        wanted = by_tcp(testbed)
        for carrier in ("--rsockets", "--sdp"):
            compare(testbed, carrier, wanted)
            killed_owner(testbed, carrier)
    return 0


if __name__ == "__main__":
    sys.exit(main())
