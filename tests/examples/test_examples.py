#!/usr/bin/env python3
"""Runs one example of examples/ between nodes, and checks what it says."""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "programs"))
from lab import Failure, Lab, option_parser, wait_until  # noqa: E402 (found by the line above)

SECONDS_MAX = 30


class Stage:
    """The nodes of a lab, and the example's programs on them."""

    def __init__(self, lab, name):
        self.lab = lab
        self.program = f"{lab.build}/bin/examples/{name}"
        self.server_address = lab.address("a")

    def serve(self, *arguments):
        """Starts the example on node a, which listens by rdma_cm."""
        server = self.lab.start("a", [self.program, *arguments])
        wait_until(lambda: server.ended() or self.lab.bound_ports("a"), SECONDS_MAX, "the server to listen")
        return server

    def start(self, *arguments, node="b"):
        """Starts the example on another node, as a client of node a's."""
        return self.lab.start(node, [self.program, self.server_address, *arguments])

    def run(self, *arguments, node="b"):
        """What a client says that succeeds."""
        client = self.start(*arguments, node=node)
        client.expect_success(SECONDS_MAX)
        return client.output()


def expect(pattern, program):
    """Fails unless what the program has said has the pattern."""
    text = program if isinstance(program, str) else program.output()
    found = re.search(pattern, text)
    if not found:
        raise Failure(f"expected {pattern!r} in:\n{text}")
    return found


def verbs_write(stage, _):
    port = str(stage.lab.free_port())
    server = stage.lab.start_server("a", [stage.program, "-p", port], int(port))
    client = stage.lab.start("b", [stage.program, "-p", port, stage.server_address])
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


# What each example runs over. verbs_write connects its queue pairs itself, which iWARP has no way for.
CASES = {
    "verbs_write": (verbs_write, ("roce",)),
    "cm_write": (cm_write, ("roce", "iwarp")),
    "ping_pong": (ping_pong, ("roce", "iwarp")),
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
    with Lab(options) as lab:
        for node in "abc":
            lab.set_variables(node, VERBATIM_PROTOCOL=options.protocol)
        CASES[options.name][0](Stage(lab, options.name), options.protocol)
    return 0


if __name__ == "__main__":
    sys.exit(main())
