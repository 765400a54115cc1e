#!/usr/bin/env python3
"""`verbatim target` with a host of NVMe over Fabrics that is a program of ours: discovery, content, refusals, and
either end killed."""

import json
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))

from testbed import Failure, Testbed, option_parser, wait_until

NQN = "nqn.2026-01.test:disk"
HOST, STRANGER = "nqn.2026-01.test:host", "nqn.2026-01.test:stranger"
REFUSED = 3  # Exit status of nvme_host.
SECONDS = 60


class Bench:
    """A target on node a, hosts on node b."""

    def __init__(self, testbed, protocol):
        self.testbed = testbed
        self.port = testbed.free_port()
        for node in ("a", "b"):
            testbed.set_variables(node, VERBATIM_PROTOCOL=protocol)
        self.protocol = protocol
        self.place = f"{testbed.address('a')}:{self.port}"

    def verbatim(self, *words, expect=0):
        environment = self.testbed.environment() | {"VERBATIM_PROTOCOL": self.protocol}
        done = subprocess.run([f"{self.testbed.build}/bin/verbatim", "target", *words], env=environment, check=False,
                              capture_output=True, text=True, timeout=SECONDS)
        if done.returncode != expect:
            raise Failure(f"verbatim target {' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def up(self, *words):
        self.verbatim("up", "--node", "a", "--address", self.testbed.address("a"), "--nvme", NQN, "--ram", "32M",
                      "--listen", self.place, *words)

    def down(self):
        self.verbatim("down", "--node", "a")

    def show(self):
        return json.loads(self.verbatim("show", "--node", "a", "--json"))

    def host(self, *words):
        return self.testbed.start("b", [f"{self.testbed.build}/bin/nvme_host", *words])

    def expect(self, status, *words):
        program = self.host(*words)
        found = program.wait(SECONDS)
        if found != status:
            raise Failure(f"nvme_host {' '.join(words)} ended with status {found}, not {status}")
        return program.output()

    def wait_until_empty(self):
        wait_until(lambda: self.show()["connections"] == 0, SECONDS, "the target to have no connection")


def expect_words(text, *words):
    missing = [word for word in words if word not in text]
    if missing:
        raise Failure(f"{missing} are not in:\n{text}")


def admits_whom_it_names(bench):
    bench.up("--allow-host", HOST)
    expect_words(bench.expect(0, "discover", bench.place, HOST), f"{NQN} at {bench.place.replace(':', ' ')}")
    if bench.expect(0, "discover", bench.place, STRANGER):
        raise Failure("a stranger sees what it may not have")
    expect_words(bench.expect(REFUSED, "io", bench.place, STRANGER, NQN), "status 0x184")
    expect_words(bench.expect(REFUSED, "io", bench.place, HOST, NQN + "2"), "status 0x182")
    bench.wait_until_empty()
    expect_words(json.dumps(bench.show()["incidents"]), f"{STRANGER} is not among the hosts")
    bench.expect(0, "io", bench.place, HOST, NQN)
    bench.wait_until_empty()


def keeps_what_was_written(bench):
    """A host is killed, and another finds what it has written."""
    writer = bench.host("io", bench.place, HOST, NQN, "rounds=1000000", "seed=7")
    wait_until(lambda: "one round" in writer.output() or writer.ended(), SECONDS, "a round")
    writer.kill()
    bench.wait_until_empty()
    bench.expect(0, "io", bench.place, HOST, NQN, "seed=7", "only=read", "rounds=1")


def serves_again(bench):
    """The target is killed: its host notices, and the next target serves."""
    host = bench.host("io", bench.place, HOST, NQN, "rounds=1000000")
    wait_until(lambda: "one round" in host.output() or host.ended(), SECONDS, "a round")
    os.kill(bench.show()["process"], signal.SIGKILL)
    if host.wait(SECONDS) != 1:
        raise Failure("the host has not noticed that its target was killed")
    bench.up("--allow-any-host")
    bench.expect(0, "io", bench.place, STRANGER, NQN)
    bench.down()


def holds_two_thousand(bench):
    """SECURITY.md's bound."""
    bench.up("--allow-any-host")
    crowds = [bench.testbed.start("b", [f"{bench.testbed.build}/bin/nvme_host", "crowd", bench.place, HOST, NQN,
                                        "hosts=500"], stdin=subprocess.PIPE) for _ in range(4)]
    wait_until(lambda: all("all are connected" in crowd.output() or crowd.ended() for crowd in crowds), SECONDS,
               "2,000 hosts to connect")
    if bench.show()["connections"] != 2000:
        raise Failure(f"{bench.show()['connections']} connections instead of 2,000")
    bench.expect(0, "io", bench.place, HOST, NQN)
    for crowd in crowds:
        crowd.process.stdin.close()
        crowd.expect_success(SECONDS)
    bench.wait_until_empty()
    bench.down()


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--protocol", default="roce", choices=("roce", "iwarp"))
    options = parser.parse_args()
    with Testbed(options) as testbed:
        bench = Bench(testbed, options.protocol)
        try:
            for part in (admits_whom_it_names, keeps_what_was_written, serves_again,
                         holds_two_thousand):
                part(bench)
                print(f"passed: {part.__name__}", flush=True)
        finally:
            subprocess.run([f"{testbed.build}/bin/verbatim", "target", "down", "--node", "a"], check=False,
                           env=testbed.environment(), capture_output=True)


if __name__ == "__main__":
    sys.exit(main())
