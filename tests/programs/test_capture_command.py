#!/usr/bin/env python3
"""`verbatim capture`: tshark, zlib and scapy find every packet of a node's programs in order (tests/wire_judge), those of
programs that ran before and those that start meanwhile; programs, the agent and who reads may be killed."""

import collections
import os
import re
import signal
import subprocess
import sys

from testbed import Failure, Program, Testbed, are_installed, option_parser, wait_until, SKIPPED
from test_capture import judged_opcodes

SECONDS_MAX = 60
# As perftest and the ping-pong programs use them, both services and all verbs.
RUNS = (
    "ib_write_bw -F -n 200 -s 20000 -m 4096",
    "ib_send_lat -F -n 100 -s 64",
    "ib_read_bw -F -n 100 -s 20000 -m 1024",
    "ib_atomic_bw -F -n 50",
    "ib_send_lat -F -n 50 -c UD -s 100",
    "ibv_rc_pingpong -n 100 -s 9000 -g 1",
)


def capture_argv(testbed, node, path, *words):
    return [f"{testbed.build}/bin/verbatim", "capture", "-w", path, "--node", node, "--address", testbed.address(node), *words]


class Capture:
    """Of a node, until `stop`."""

    def __init__(self, testbed, node, *words, **variables):
        self.path = f"{testbed.folder}/{len(testbed.programs)}.pcapng"
        log_path = f"{testbed.folder}/{len(testbed.programs)}.capture.log"
        self.program = Program("verbatim capture", capture_argv(testbed, node, self.path, *words),
                               testbed.environment() | variables, log_path)
        testbed.programs.append(self.program)
        wait_until(lambda: "Ctrl-C" in self.program.output() or self.program.ended(), 20, "the capture to begin")

    def stop(self, sign=signal.SIGINT):
        self.program.process.send_signal(sign)
        return self.summary()

    def summary(self):
        """How many packets there were, of how many programs, and how many were lost."""
        self.program.expect_success(SECONDS_MAX)
        text = self.program.output()
        found = re.search(r"([\d,]+) packets?, [\d.]+ \w+, of ([\d,]+) programs?, in ", text)
        if not found:
            raise Failure(f"the capture ends without a summary: {text}")
        lost = re.search(r"([\d,]+) packets? lost", text)
        return tuple(int(one.replace(",", "")) for one in (*found.groups(), lost[1] if lost else "0"))


def captures(program):
    """Whether that process has a ring."""
    with open(f"/proc/{program.process.pid}/maps", encoding="ascii", errors="replace") as maps:
        return "memfd:verbatim-capture" in maps.read()


def tshark(path, *words):
    done = subprocess.run(["tshark", "-r", path, *words], check=True, text=True, capture_output=True, timeout=SECONDS_MAX)
    return done.stdout.splitlines()


def packets_sent(testbed, node):
    return sum(program["counters"]["packets_sent"] for program in testbed.status(node))


def test_programs_that_start_meanwhile(testbed):
    """Every packet is in the file: the programs lose none, and count what they send."""
    capture = Capture(testbed, "a")
    for run in RUNS:
        testbed.run_pair(run, SECONDS_MAX)
    packets, programs, lost = capture.stop()
    if programs != len(RUNS) or lost != 0:
        raise Failure(f"{programs} programs were captured, {lost} packets lost")
    judged_opcodes(capture.path)
    in_file = len(tshark(capture.path))
    if in_file != packets:
        raise Failure(f"{in_file} packets are in the file, {packets} in the summary")
    times = [float(line) for line in tshark(capture.path, "-T", "fields", "-e", "frame.time_epoch")]
    late = sum(1 for before, after in zip(times, times[1:]) if after < before)
    if late > len(times) // 100:
        raise Failure(f"{late} of {len(times)} packets are not in the order of time")
    print(f"passed: {packets} packets of {programs} programs", flush=True)


def start_pingpong(testbed, node, *words):
    port = testbed.free_port()
    argv = ["ibv_rc_pingpong", "-p", str(port), "-n", "100", "-g", "1", *words]
    return argv, testbed.start_server(node, argv, port)


def test_a_program_that_runs(testbed):
    """It waits for its peer when the capture begins; the peer is captured on its own node, with a command."""
    argv, server = start_pingpong(testbed, "a")
    capture = Capture(testbed, "a")
    wait_until(lambda: captures(server), 20, "the program to be captured")
    other = f"{testbed.folder}/client.pcapng"
    words = capture_argv(testbed, "b", other, "--", *argv, testbed.address("a"))
    done = subprocess.run(words, env=testbed.environment(), check=False, text=True, capture_output=True, timeout=SECONDS_MAX)
    if done.returncode != 0 or "bytes in" not in done.stdout or "of 1 program, in" not in done.stderr:
        raise Failure(f"a capture with a command: {done}")
    server.expect_success(SECONDS_MAX)
    wait_until(lambda: not testbed.status("a"), 20, "the program to leave")
    packets, programs, _ = capture.stop()
    if programs != 1:
        raise Failure(f"{programs} programs were captured")
    for path in (capture.path, other):
        for direction, name in ((1, "received"), (2, "sent")):
            found = len(tshark(path, "-Y", f"frame.packet_flags_direction == {direction}"))
            if found < 200:  # A message of several packets and an acknowledgement, each time.
                raise Failure(f"{path} has {found} packets that were {name}")
        judged_opcodes(path)
    print(f"passed: a program that ran, {packets} packets", flush=True)


def test_statuses_and_refusals(testbed):
    def run(*words, path=f"{testbed.folder}/x.pcapng", node="a", **more):
        return subprocess.run(capture_argv(testbed, node, path, *words), env=testbed.environment() | more, check=False,
                              text=True, capture_output=True, timeout=SECONDS_MAX)

    def expect(done, status, text):
        if done.returncode != status or text not in done.stderr:
            raise Failure(f"not status {status} and '{text}': {done}")

    expect(run("--", "sh", "-c", "exit 7"), 7, "0 packets, 0 bytes, of 0 programs")
    expect(run("--", "sh", "-c", "kill -9 $$"), 137, "0 packets")
    expect(run("--", "nonsense"), 127, "nonsense")
    expect(run("--for", "300ms"), 0, "0 packets")
    expect(run("--for", "soon"), 2, "'soon' is no time")
    expect(run(path=f"{testbed.folder}/nowhere/x"), 1, "No such file")
    expect(run(node="b", VERBATIM_PROTOCOL="iwarp"), 1, "speaks iWARP")
    capture = Capture(testbed, "a")
    expect(run(), 1, f"node 'a' is being captured already, by process {capture.program.process.pid}")
    capture.stop(signal.SIGTERM)
    print("passed: statuses and refusals", flush=True)


def test_pipe(testbed):
    """Packets into a pipe whose reader goes on with them, or has seen enough."""
    for reader, wanted in ((["tshark", "-r", "-"], 300), (["head", "-c", "1000"], 0)):
        argv, server = start_pingpong(testbed, "a")
        words = capture_argv(testbed, "b", "-", "--", *argv, testbed.address("a"))
        with subprocess.Popen(words, env=testbed.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as capture:
            read = subprocess.run(reader, stdin=capture.stdout, check=False, capture_output=True, timeout=SECONDS_MAX)
            capture.stdout.close()
            messages = capture.stderr.read()
            if capture.wait(SECONDS_MAX) != 0 or "in standard output" not in messages or "bytes in" not in messages:
                raise Failure(f"a capture into {reader}: {capture.returncode} {messages}")
        if read.returncode != 0 or len(read.stdout.splitlines()) < wanted:
            raise Failure(f"what was read: {read}")
        server.expect_success(SECONDS_MAX)
    print("passed: pipes", flush=True)


def test_faults_are_told(testbed):
    testbed.set_variables("a", VERBATIM_FAULT="loss=5%,duplicate=5%,reorder=5%,corrupt=5%,seed=3")
    capture = Capture(testbed, "a")
    testbed.run_pair("ib_write_bw -F -n 20 -s 100000 -m 1024", SECONDS_MAX)
    testbed.run_pair("ib_read_bw -F -n 20 -s 100000 -m 1024", SECONDS_MAX)
    capture.stop()
    testbed.set_variables("a")
    comments = collections.Counter(tshark(capture.path, "-T", "fields", "-e", "frame.comment", "-Y", "frame.comment"))
    wanted = {"fault: lost, not on the wire", "fault: duplicate", "fault: reordered", "fault: corrupted"}
    if set(comments) != wanted or f"{comments.total()} of them hit by faults" not in capture.program.output():
        raise Failure(f"comments of faults: {comments} {capture.program.output()}")
    print(f"passed: {dict(comments)}", flush=True)


def test_kills(testbed):
    """A program is killed, then the agent: the capture goes on with what comes."""
    capture = Capture(testbed, "a")
    argv, server = start_pingpong(testbed, "a")
    server.kill()
    argv, server = start_pingpong(testbed, "a")
    wait_until(lambda: captures(server), 20, "the program to be captured")
    os.kill(testbed.node_status("a")["agent_pid"], signal.SIGKILL)
    testbed.start("b", [*argv, testbed.address("a")]).expect_success(SECONDS_MAX)
    server.expect_success(SECONDS_MAX)
    testbed.run_pair("ib_send_lat -F -n 50", SECONDS_MAX)
    packets, programs, _ = capture.stop()
    if programs < 3 or packets < 300:
        raise Failure(f"after kills: {packets} packets of {programs} programs")
    judged_opcodes(capture.path)
    print("passed: kills", flush=True)


def test_direct_path(testbed):
    capture = Capture(testbed, "a")
    testbed.set_variables("a", VERBATIM_PATH="auto")
    testbed.set_variables("b", VERBATIM_PATH="auto")
    testbed.run_pair("ib_send_lat -F -n 50", SECONDS_MAX)
    packets, _, _ = capture.stop()
    text = capture.program.output()
    if packets != 0 or "ib_send_lat (process" not in text or "--path wire" not in text:
        raise Failure(f"on the direct path: {text}")
    print("passed: the direct path is told", flush=True)


def main():
    options = option_parser(__doc__).parse_args()
    if not are_installed("tshark", "ib_write_bw", "ibv_rc_pingpong"):
        return SKIPPED
    for test in (test_statuses_and_refusals, test_programs_that_start_meanwhile, test_a_program_that_runs, test_pipe,
                 test_faults_are_told, test_kills, test_direct_path):
        with Testbed(options) as testbed:
            test(testbed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
