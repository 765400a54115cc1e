#!/usr/bin/env python3
"""Runs one example of examples/ between nodes, and checks what it says."""

import functools
import os
import pathlib
import random
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "programs"))
from testbed import Failure, Testbed, option_parser, wait_until  # noqa: E402 (found by the line above)

SECONDS_MAX = 30


class Stage:
    """The nodes of a testbed, and the example's programs on them."""

    def __init__(self, testbed, name):
        self.testbed = testbed
        self.program = f"{testbed.build}/bin/examples/{name}"
        self.server_address = testbed.address("a")

    def serve(self, *arguments):
        """Starts the example on node a, which listens by rdma_cm."""
        server = self.testbed.start("a", [self.program, *arguments])
        wait_until(lambda: server.ended() or self.testbed.bound_ports("a"), SECONDS_MAX, "the server to listen")
        return server

    def start(self, *arguments, node="b"):
        """Starts the example on another node, as a client of node a's."""
        return self.testbed.start(node, [self.program, self.server_address, *arguments])

    def run(self, *arguments, node="b"):
        """Returns the output of a client, which must succeed."""
        client = self.start(*arguments, node=node)
        client.expect_success(SECONDS_MAX)
        return client.output()


def expect(pattern, program):
    """Fails unless the program's output matches the pattern."""
    text = program if isinstance(program, str) else program.output()
    found = re.search(pattern, text)
    if not found:
        raise Failure(f"expected {pattern!r} in:\n{text}")
    return found


def verbs_write(stage, _):
    port = str(stage.testbed.free_port())
    server = stage.testbed.start_server("a", [stage.program, "-p", port], int(port))
    client = stage.testbed.start("b", [stage.program, "-p", port, stage.server_address])
    client.expect_success(SECONDS_MAX)
    server.expect_success(SECONDS_MAX)
    said = expect(r"wrote: (process \d+ was here)\n", client)[1]
    expect(rf"was written: {said} \(immediate 42\)", server)


def cm_write(stage, protocol):
    server = stage.serve()
    said = expect(r"wrote: (process \d+ was here)\n", stage.run())[1]
    server.expect_success(SECONDS_MAX)
    expect(f"was written: {said}" + ("\n" if protocol == "iwarp" else r" \(immediate 42\)"), server)


def ping_pong(stage, _):
    server = stage.serve()
    table = stage.run()
    server.expect_success(SECONDS_MAX)
    for size in (8, 64, 512, 4096, 32768):
        expect(rf"\n *{size}( +\d+\.\d\d){{3}}\n", table)


def counter(stage, _):
    server = stage.serve()
    clients = [stage.start("add", "1", "500", node=node) for node in ("b", "c")]
    for client in clients:
        client.expect_success(SECONDS_MAX)
    expect("it was 1000, and is 1007 now", stage.run("add", "7"))
    expect("it was 1007, and is 5000 now", stage.run("raise", "5000"))
    expect("it was 5000, and is 5000 now", stage.run("raise", "10"))
    wait_until(lambda: "the counter is 5000" in server.output(), SECONDS_MAX, "the server to see it")


def key_value(stage, _):
    stage.serve()
    pairs = {node: [word for i in range(20) for word in (f"{node}{i}", f"{node} has {i}")] for node in ("b", "c")}
    clients = [stage.start("put", "shared", node, *pairs[node], node=node) for node in ("b", "c")]
    for client in clients:
        client.expect_success(SECONDS_MAX)
    stored = stage.run("get", "shared", "absent", *pairs["b"][::2], *pairs["c"][::2])
    expect(r"shared = [bc]\n", stored)
    expect(r"absent = \(not stored\)\n", stored)
    for node in ("b", "c"):
        for i in range(20):
            expect(f"{node}{i} = {node} has {i}\n", stored)
    stage.run("put", "b0", "another")
    expect("b0 = another\n", stage.run("get", "b0"))


def file_copy(stage, _):
    original, copy = (pathlib.Path(stage.testbed.folder) / name for name in ("original", "copy"))
    original.write_bytes(random.Random(1).randbytes(10_000_001))
    stage.serve("serve", str(original))
    expect(r"10000001 bytes in .* MB/s", stage.run(str(copy)))
    if copy.read_bytes() != original.read_bytes():
        raise Failure("the copy differs")


def rpc(stage, _):
    stage.serve()
    calls = {"upper": "SOME TEXT", "reverse": "txet emos", "echo": "some text"}
    clients = [(stage.start(name, *["some text"] * 200, node=node), answer)
               for node in ("b", "c") for name, answer in calls.items()]
    for client, answer in clients:
        client.expect_success(SECONDS_MAX)
        expect(rf"^({answer}\n){{200}}$", client)
    expect("no such procedure", stage.run("nothing", "x"))


def barrier(stage, _):
    first = stage.serve("3")
    members = [stage.start(node=node) for node in ("b", "c")]
    waits = {}
    for program in (first, *members):
        program.expect_success(SECONDS_MAX)
        lines = re.findall(r"process (\d), round (\d): waited (\S+) ms", program.output())
        if [number for _, number, _ in lines] != list("12345"):
            raise Failure(f"not all rounds are in:\n{program.output()}")
        waits[int(lines[0][0])] = sum(float(wait) for _, _, wait in lines)
    # Process 2 works 20 ms in each round, process 1 only 10; the first round may have begun before
    # all had started.
    if len(waits) != 3 or waits[0] < 4 * 20 or waits[1] < 4 * 10:
        raise Failure(f"one did not wait for the last: {waits}")


def chat(stage, _):
    nodes, inputs, programs = "abc", {}, {}
    for node in nodes:
        others = [stage.testbed.address(other) for other in nodes[:nodes.index(node)]]
        reading, inputs[node] = os.pipe()
        programs[node] = stage.testbed.start(node, [stage.program, f"name-{node}", *others], stdin=reading)
        os.close(reading)
        listening = functools.partial(stage.testbed.bound_ports, node)
        wait_until(listening, SECONDS_MAX, f"node {node} to listen")

    def wait_for(node, text):
        wait_until(lambda: text in programs[node].output(), SECONDS_MAX, f"{text!r} at node {node}")

    for node in nodes:
        for other in nodes.replace(node, ""):
            wait_for(node, f"* name-{other} is here\n")
    for node in nodes:
        os.write(inputs[node], f"hello from {node}\n".encode())
        for other in nodes.replace(node, ""):
            wait_for(other, f"name-{node}: hello from {node}\n")
    for node in nodes:
        os.close(inputs[node])
        programs[node].expect_success(SECONDS_MAX)
        for other in nodes[nodes.index(node) + 1:]:
            wait_for(other, f"* name-{node} has left\n")


# The protocols of each example. verbs_write connects its queue pairs itself, which is not possible
# over iWARP.
CASES = {
    "verbs_write": (verbs_write, ("roce",)),
    "cm_write": (cm_write, ("roce", "iwarp")),
    "ping_pong": (ping_pong, ("roce", "iwarp")),
    "counter": (counter, ("roce", "iwarp")),
    "key_value": (key_value, ("roce", "iwarp")),
    "file_copy": (file_copy, ("roce", "iwarp")),
    "rpc": (rpc, ("roce", "iwarp")),
    "barrier": (barrier, ("roce", "iwarp")),
    "chat": (chat, ("roce", "iwarp")),
}


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--list", action="store_true", help="print NAME PROTOCOL... of each, for CMake")
    parser.add_argument("--protocol", default="roce", choices=("roce", "iwarp"))
    parser.add_argument("name", nargs="?", choices=CASES)
    options = parser.parse_args()
    if options.list:
        for name, (_, protocols) in CASES.items():
            print(name, *protocols)
        return 0
    with Testbed(options) as testbed:
        for node in "abc":
            testbed.set_variables(node, VERBATIM_PROTOCOL=options.protocol)
        CASES[options.name][0](Stage(testbed, options.name), options.protocol)
    return 0


if __name__ == "__main__":
    sys.exit(main())
