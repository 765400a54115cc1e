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

    def __init__(self, testbed, **variables):
        self.testbed = testbed
        self.port = testbed.free_port()
        self.variables = variables
        self.set_variables(**variables)
        self.place = f"{testbed.address('a')}:{self.port}"

    def set_variables(self, **variables):
        """Of the target that is started next, and of hosts."""
        self.variables = variables
        for node in ("a", "b"):
            self.testbed.set_variables(node, **variables)

    def verbatim(self, command, *words, expect=0):
        words = [command, *self.testbed.run_options("a"), *words]
        done = subprocess.run([f"{self.testbed.build}/bin/verbatim", "target", *words], check=False, text=True,
                              env=self.testbed.environment() | self.variables, capture_output=True, timeout=SECONDS)
        if done.returncode != expect:
            raise Failure(f"verbatim target {' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def up(self, *words, expect=0):
        given = {"--nvme": NQN, "--ram": "32M", "--listen": self.place}
        usual = [word for pair in given.items() if pair[0] not in words for word in pair]
        return self.verbatim("up", *usual, *words, expect=expect)

    def down(self):
        self.verbatim("down")

    def show(self):
        return json.loads(self.verbatim("show", "--json"))

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
    host = bench.host("io", bench.place, HOST, NQN, "rounds=1000000", "retries=1")
    wait_until(lambda: "one round" in host.output() or host.ended(), SECONDS, "a round")
    os.kill(bench.show()["process"], signal.SIGKILL)
    if host.wait(SECONDS) != 1:
        raise Failure("the host has not noticed that its target was killed")
    bench.up("--allow-any-host")
    bench.expect(0, "io", bench.place, STRANGER, NQN)
    bench.down()


def keeps_content_under_faults(bench):
    before = bench.variables
    bench.set_variables(**before, VERBATIM_FAULT="loss=1%,duplicate=1%,reorder=1%,seed=7")
    bench.up("--allow-any-host")
    bench.expect(0, "io", bench.place, HOST, NQN, "rounds=1")
    bench.down()
    bench.set_variables(**before)


def says_what_is_wrong(bench):
    """Each error of a set-up says what to do, and the target that runs goes on."""
    rows = {
        ("--ram", "64X"): "'64X' is no size: write one as 64M or 1G",
        ("--ram", "1000"): "1000 bytes are no blocks of 512",
        ("--block", "1024"): "blocks of 1024 bytes: 512 and 4096 are there",
        ("--nvme", "disk"): "nqn.2026-01.com.example:disk",
        ("--listen", "nowhere"): "'nowhere' is no address: write 10.0.0.1 or 10.0.0.1:4420",
        ("--listen", "192.0.2.1"): "192.0.2.1",
    }
    for words, told in rows.items():
        expect_words(bench.up("--allow-any-host", *words, expect=1 if words[1] == "192.0.2.1" else 2), told)
    expect_words(bench.verbatim("show", expect=1), "no target of")
    expect_words(bench.verbatim("down", expect=1), "no target of")
    expect_words(bench.up(), "no host may connect yet: name them with --allow-host, or say --allow-any-host")
    expect_words(bench.up("--allow-any-host", expect=1), "runs")
    expect_words(bench.verbatim("show"), f"listens at {bench.place}", NQN, "namespace 1: 33554432 bytes, blocks of 512")
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


PARTS = (admits_whom_it_names, keeps_what_was_written, serves_again, keeps_content_under_faults, says_what_is_wrong,
         holds_two_thousand)


def run_all(bench, parts):
    try:
        for part in parts:
            part(bench)
            print(f"passed: {part.__name__}", flush=True)
    finally:
        subprocess.run([f"{bench.testbed.build}/bin/verbatim", "target", "down", *bench.testbed.run_options("a")],
                       check=False, env=bench.testbed.environment(), capture_output=True)


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--protocol", default="roce", choices=("roce", "iwarp"))
    options = parser.parse_args()
    with Testbed(options) as testbed:
        run_all(Bench(testbed, VERBATIM_PROTOCOL=options.protocol), PARTS)


if __name__ == "__main__":
    sys.exit(main())
