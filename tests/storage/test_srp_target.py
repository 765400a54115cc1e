#!/usr/bin/env python3
"""`verbatim target --srp` with an initiator on the C interfaces."""

import json
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))

from testbed import Failure, Testbed, option_parser, wait_until

PORT = "505400fffe780002505400fffe780002"
INITIATOR, STRANGER = "0000000000000000505400fffe780003", "0000000000000000505400fffe780004"
REFUSED = 3  # Exit status of srp_initiator.
SECONDS = 60


class Bench:
    """A target on node a, initiators on node b."""

    def __init__(self, testbed, protocol):
        self.testbed = testbed
        self.variables = {} if protocol is None else {"VERBATIM_PROTOCOL": protocol}
        for node in ("a", "b"):
            testbed.set_variables(node, **self.variables)
        self.place = f"{testbed.address('a')}:{testbed.free_port()}"

    def verbatim(self, *words):
        environment = self.testbed.environment() | self.variables
        done = subprocess.run([f"{self.testbed.build}/bin/verbatim", "target", *words], env=environment, check=False,
                              capture_output=True, text=True, timeout=SECONDS)
        if done.returncode != 0:
            raise Failure(f"verbatim target {' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def up(self, *words):
        self.verbatim("up", "--node", "a", "--address", self.testbed.address("a"), "--srp", PORT, "--ram", "4M",
                      "--srp-listen", self.place, *words)

    def where(self):
        return ("--node", "a")

    def down(self):
        self.verbatim("down", *self.where())

    def show(self):
        return json.loads(self.verbatim("show", *self.where(), "--json"))

    def start(self, initiator=INITIATOR, target=PORT, *words):
        return self.testbed.start("b", [f"{self.testbed.build}/bin/srp_initiator", self.place, initiator, target,
                                        *words])

    def expect(self, status, words, *of):
        program = self.start(*of)
        found = program.wait(SECONDS)
        output = program.output()
        if found != status or any(word not in output for word in words):
            raise Failure(f"srp_initiator: status {found}, expected {status} and {words} in:\n{output}")

    def disk(self, rounds):
        """Our own initiator."""
        line = f"id_ext={PORT[:16]},ioc_guid={PORT[16:]},dest={self.place}"
        return self.testbed.start("b", [f"{self.testbed.build}/bin/srp_disk", str(rounds), line])

    def kill(self):
        process = self.show()["process"]
        os.kill(process, signal.SIGKILL)
        wait_until(lambda: not os.path.exists(f"/proc/{process}"), SECONDS, "the killed target to be gone")

    def expect_incident(self, words):
        def is_there():
            return words in json.dumps(self.show()["incidents"])
        wait_until(is_there, SECONDS, f"an incident with '{words}'")

    def wait_until_empty(self):
        def is_empty():
            shown = self.show()
            return shown["connections"] == 0 and not shown["srp"]["initiators"]
        wait_until(is_empty, SECONDS, "the target to have no connection")


def is_a_disk(bench):
    bench.up("--allow-any-srp-initiator")
    bench.expect(0, ("logged in: 64 requests, flags 0x80", "VERBATIM", "compared"))
    bench.wait_until_empty()
    bench.down()


def admits_whom_it_names(bench):
    bench.up("--allow-srp-initiator", "0x" + INITIATOR)
    bench.expect(0, ("compared",))
    bench.expect(REFUSED, ("reason 0x10006",), STRANGER)
    bench.expect_incident(f"port 0x{PORT} does not admit initiator 0x{STRANGER}")
    bench.expect(REFUSED, ("reason 0x10003",), INITIATOR, STRANGER)
    bench.expect_incident(f"there is no port 0x{STRANGER}; one is 0x{PORT}")
    bench.wait_until_empty()
    bench.down()


def second_login_ends_the_first(bench):
    bench.up("--allow-any-srp-initiator")
    first = bench.start(INITIATOR, PORT, "hold")
    wait_until(lambda: "compared" in first.output(), SECONDS, "the first initiator to have compared")
    bench.expect(0, ("flags 0x81", "compared"))
    bench.wait_until_empty()
    first.kill()
    third = bench.start(INITIATOR, PORT, "hold")
    wait_until(lambda: "compared" in third.output(), SECONDS, "the third initiator to have compared")
    third.kill()
    bench.wait_until_empty()
    bench.down()


def our_initiator_resumes(bench):
    """The target is killed under load, and what is written before is lost with its memory: so it is written again."""
    bench.up("--allow-any-srp-initiator")
    disk = bench.disk(100)
    disk.expect_success(SECONDS)
    if "4194304 bytes" not in disk.output() or "1 sessions" not in disk.output():
        raise Failure(f"not in one session: {disk.output()}")
    disk = bench.disk(1 << 30)
    wait_until(lambda: bench.show()["srp"]["initiators"], SECONDS, "the initiator to log in")
    bench.kill()
    bench.up("--allow-any-srp-initiator")
    wait_until(lambda: disk.ended() or bench.show()["srp"]["initiators"], SECONDS, "the initiator to log in again")
    if disk.ended():
        raise Failure(f"the initiator did not wait: {disk.output()}")
    disk.kill()
    bench.wait_until_empty()
    bench.down()


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--protocol", default="roce", choices=("roce", "iwarp"))
    options = parser.parse_args()
    with Testbed(options) as testbed:
        bench = Bench(testbed, options.protocol)
        try:
            for part in (is_a_disk, admits_whom_it_names, second_login_ends_the_first, our_initiator_resumes):
                part(bench)
                print(f"passed: {part.__name__}", flush=True)
        finally:
            subprocess.run([f"{testbed.build}/bin/verbatim", "target", "down", "--node", "a"], check=False,
                           env=testbed.environment(), capture_output=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
