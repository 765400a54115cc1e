"""Runs one program that measures, ours or a peer's, and reads its figure."""

import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "programs"))

from testbed import Failure, listens, wait_until  # noqa: E402  (the path has to be set first)

MIB = 1 << 20
SECONDS_MAX = 120
TO_MICROSECONDS = {"ns": 1e-3, "us": 1.0, "ms": 1e3}


@dataclass(frozen=True)
class Task:
    """One figure: which tool gives it, over what, from which words of its command line.

    tool   a method of Bench
    over   perftest and our own programs: VERBATIM_PATH; UCX: UCX_TLS; libfabric: the provider
    words  test or program, and its options
    size   bytes of a message; 0 where the test has no size
    unit   us (lower is better), GB/s or M/s (millions of messages a second), KiB
    """
    tool: str
    words: str
    unit: str
    over: str = ""
    size: int = 0


def tail(output):
    """Returns the last lines of the output, which say why a run has failed."""
    return "\n".join(output.splitlines()[-12:])


def last_row(output):
    """Returns the numeric fields of the last line of `output`."""
    for line in reversed(output.splitlines()):
        fields = line.split()
        if fields and all(re.fullmatch(r"[\d.]+", field) for field in fields):
            return [float(field) for field in fields]
    raise Failure(f"no row of figures in:\n{tail(output)}")


def run_client(argv, environment):
    """Returns the output of `argv`, which runs without Verbatim."""
    try:
        return subprocess.run(argv, check=True, text=True, timeout=SECONDS_MAX, env=environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout
    except subprocess.CalledProcessError as error:
        raise Failure(f"{argv[0]} ended with status {error.returncode}:\n"
                      f"{tail(error.stdout)}") from error
    except (subprocess.TimeoutExpired, OSError) as error:
        raise Failure(str(error)) from error


def with_server(server_argv, port, client_argv, **variables):
    """Returns the output of a client of a server; both run without Verbatim."""
    environment = os.environ | variables
    try:
        server = subprocess.Popen(server_argv, env=environment, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
    except OSError as error:
        raise Failure(str(error)) from error
    with server:
        try:
            wait_until(lambda: listens(server.pid, port) or server.poll() is not None, 20,
                       f"{server_argv[0]} to listen")
            if server.poll() is not None:
                raise Failure(f"{' '.join(server_argv)} ended before it listened")
            return run_client(client_argv, environment)
        finally:
            server.kill()


def on_path(path, argv):
    """Returns the command that runs `argv` with this VERBATIM_PATH: the agents of a testbed serve both paths."""
    return ["env", f"VERBATIM_PATH={path}", *argv]


class Bench:
    """Measures tasks in a testbed, each for about `seconds`."""

    def __init__(self, testbed, seconds):
        self.testbed = testbed
        self.seconds = seconds
        self.whole_seconds = str(max(1, round(seconds)))  # For programs that take only whole seconds.

    def measure(self, task):
        """Returns the figure of `task` in its unit; raises Failure if there is none."""
        return getattr(self, task.tool)(task)

    def _exchanges(self, size):
        """Returns how often to send a message of `size` bytes back and forth."""
        return max(100, round(self.seconds * max(500, min(50_000, (1 << 28) // max(size, 1)))))

    def _messages(self, size):
        """Returns how many messages of `size` bytes to send in a stream."""
        return max(1000, round(self.seconds * min(2_000_000, (1 << 32) // max(size, 1))))

    def perftest(self, task):
        """Debian's perftest as server on node a and client on node b, both polling."""
        port = self.testbed.free_port()
        program, *options = task.words.split()
        argv = [program, "-F", "-m", "4096", "-p", str(port), *options]
        if task.size:
            argv += ["-s", str(task.size)]
        # -H prints each sample with all digits, because the typical value is rounded to 10 ns.
        argv += (["-H", "-n", str(self._exchanges(task.size))] if task.unit == "us"
                 else ["-D", self.whole_seconds])
        return self._figure_of_perftest(task, self._pair(task.over, argv, port))

    def _pair(self, over, argv, port):
        """Returns the client's output."""
        try:
            server = self.testbed.start_server("a", on_path(over, argv), port)
            client = self.testbed.start("b", on_path(over, [*argv, self.testbed.address("a")]))
            client.expect_success(SECONDS_MAX)
            server.expect_success(SECONDS_MAX)
            return client.output()
        except Failure as failure:
            outputs = [tail(program.output()) for program in self.testbed.programs]
            raise Failure("\n".join([f"{' '.join(argv)}: {failure}", *outputs])) from failure
        finally:
            self._forget_programs()

    def _forget_programs(self):
        """Forgets earlier programs, whose logs are long and would be printed on a failure."""
        for program in self.testbed.programs:
            program.kill()
        self.testbed.programs.clear()

    @staticmethod
    def _figure_of_perftest(task, output):
        if task.unit == "us":
            samples = re.findall(r"^\d+, ([\d.e+-]+)$", output, re.MULTILINE)
            if not samples:
                raise Failure(f"no samples in:\n{tail(output)}")
            return statistics.median(map(float, samples))
        average, rate = last_row(output)[3:5]
        return average * MIB / 1e9 if task.unit == "GB/s" else rate

    def _alone(self, path, name, *options):
        """Returns the output of one of our programs that needs only one node."""
        program = self.testbed.start("a", on_path(path, [f"{self.testbed.build}/bin/{name}", *options]))
        try:
            program.expect_success(SECONDS_MAX)
            return program.output()
        except Failure as failure:
            raise Failure(f"{name}: {failure}\n{tail(program.output())}") from failure
        finally:
            self._forget_programs()

    def threads(self, task):
        """bench_threads: 8-byte writes of that many threads."""
        output = self._alone(task.over, "bench_threads", task.words, str(self.seconds))
        return self._before_unit(task, output)

    def queue_pairs(self, task):
        """KiB per queue pair, of that many connected RC queue pairs that have each sent a message."""
        output = self._alone(task.over, "queue_pairs", task.words)
        return float(re.search(r"used: ([\d.]+)", output).group(1))

    @staticmethod
    def _before_unit(task, output):
        found = re.search(rf"([\d.]+) {task.unit}", output)
        if not found:
            raise Failure(f"no {task.unit} in:\n{tail(output)}")
        return float(found.group(1))

    def limit(self, task):
        """bench_limits: the machine without any layer in between."""
        name, *options = task.words.split()
        size = [str(task.size)] if task.size else []
        output = run_client([f"{self.testbed.build}/bin/bench_limits", name, str(self.seconds), *size,
                             *options], os.environ)
        return self._before_unit(task, output)

    def ucx(self, task):
        """ucx_perftest over the transports `over`."""
        port = str(self.testbed.free_port())
        is_latency = task.unit == "us"
        count = self._exchanges(task.size) if is_latency else self._messages(task.size)
        argv = ["ucx_perftest", "-p", port, "-t", task.words, "-s", str(task.size), "-n",
                str(count), "-w", str(count // 10), "-f"]
        output = with_server(argv, int(port), [*argv, "127.0.0.1"], UCX_TLS=task.over,
                             UCX_NET_DEVICES="lo", UCX_WARN_UNUSED_ENV_VARS="n")
        # Messages, typical us, average and overall us, MiB/s and messages/s.
        row = last_row(output)
        return {"us": row[1], "GB/s": row[5] * MIB / 1e9, "M/s": row[7] / 1e6}[task.unit]

    def fabric(self, task):
        """libfabric's fi_pingpong, its only such test, with the provider `over`."""
        port = str(self.testbed.free_port())
        argv = ["fi_pingpong", "-p", task.over, *task.words.split(), "-S", str(task.size), "-I",
                str(self._exchanges(task.size))]
        output = with_server([*argv, "-B", port], int(port), [*argv, "-P", port, "127.0.0.1"])
        # The last row ends with the time, MB/s, us per transfer (the mean), and transfers per
        # second.
        return float(output.split()[-2])

    def qperf(self, task):
        """One way, as qperf computes it: half a round trip."""
        port = str(self.testbed.free_port())
        output = with_server(["qperf", "-lp", port], int(port),
                             ["qperf", "-lp", port, "-t", self.whole_seconds, "-m", str(task.size),
                              "-uu", "127.0.0.1", task.words])
        found = re.search(r"latency += +([\d.]+) (ns|us|ms)", output)
        if not found:
            raise Failure(f"no latency in:\n{tail(output)}")
        return float(found.group(1)) * TO_MICROSECONDS[found.group(2)]

    def iperf3(self, task):
        """One TCP connection, `size` bytes per call."""
        port = str(self.testbed.free_port())
        output = with_server(["iperf3", "-s", "-1", "-p", port], int(port),
                             ["iperf3", "-c", "127.0.0.1", "-p", port, "-t", self.whole_seconds,
                              "-l", str(task.size), "-J"])
        return json.loads(output)["end"]["sum_received"]["bits_per_second"] / 8e9
