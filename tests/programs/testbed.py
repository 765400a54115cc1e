"""Emulated hosts for tests that run whole programs: each Testbed has nodes, addresses and a runtime folder
of its own, so that labs may run side by side, and leaves nothing behind."""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time

from leftovers import end_processes_that_name, new_folder, processes_that_name

SKIPPED = 77  # Exit status that means "skipped" to ctest.
POLL_SECONDS = 0.01
OUTPUT_SECONDS_MAX = 60  # For a program that only prints something.


class Failure(Exception):
    """The test has failed; the text gives the reason."""


def option_parser(description):
    """Returns the options that every test of programs has, for a testbed."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--build", default="build", help="build folder")
    parser.add_argument("--preload", default="", help="library to preload (a sanitizer's)")
    parser.add_argument("--path", default="", choices=("", "auto", "wire"),
                        help="how programs of one machine reach each other; default: Verbatim's")
    return parser


def wait_until(condition, seconds, what):
    """Polls `condition` until its result is true, and returns that."""
    deadline = time.monotonic() + seconds
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise Failure(f"after {seconds} seconds, still waiting for {what}")
        time.sleep(POLL_SECONDS)


def are_installed(*commands):
    """Returns true if all are installed; prints those that are not."""
    missing = [command for command in commands if not shutil.which(command)]
    if missing:
        print("not installed:", *missing)
    return not missing


def cpu_seconds(pid):
    """Returns the CPU time that the process has used in all threads."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def name_of(pid):
    """Returns the name of a process; "" if it has ended."""
    try:
        with open(f"/proc/{pid}/comm", encoding="ascii", errors="replace") as comm:
            return comm.read().strip()
    except OSError:
        return ""


def listens(pid, port):
    """Returns true if a TCP socket listens at `port` in the network namespace of process `pid`."""
    for table in ("tcp", "tcp6"):
        try:
            with open(f"/proc/{pid}/net/{table}", encoding="ascii") as lines:
                next(lines)
                for line in lines:
                    fields = line.split()
                    if fields[3] == "0A" and int(fields[1].rsplit(":", 1)[1], 16) == port:
                        return True
        except OSError:
            pass  # The process has ended.
    return False


def free_ports():
    """Yields TCP ports without a listener. Processes start at different numbers."""
    port = 10000 + os.getpid() * 13 % 20000
    while True:
        port += 1
        if not listens(os.getpid(), port):
            yield port


class Program:
    """A program that runs on a node. Its output goes to a file, which `output()` reads."""

    def __init__(self, name, argv, environment, log_path, stdin=None):
        self.name = name
        self.argv = argv
        self._log_path = log_path
        with open(log_path, "wb") as log:
            # A new session, so that `kill` reaches the program's children, too.
            self.process = subprocess.Popen(
                argv, env=environment, stdin=stdin or subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True)

    def output(self):
        with open(self._log_path, encoding="utf-8", errors="replace") as log:
            return log.read()

    def ended(self):
        return self.process.poll() is not None

    def wait(self, seconds):
        """Returns the exit status; raises Failure if it does not end in time."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failure(f"{self.name} did not end within {seconds} seconds") from None

    def expect_success(self, seconds):
        status = self.wait(seconds)
        if status != 0:
            raise Failure(f"{self.name} ended with status {status}")

    def kill(self):
        if not self.ended():
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class Testbed:
    """A context manager. On failure it prints the programs' output."""

    GRACE_SECONDS = 10  # For agents, which leave after their last program.

    def __init__(self, options, namespace_pids=None):
        self.build = os.path.abspath(options.build)
        self.folder = new_folder("testbed")
        self.programs = []
        self._preload = options.preload
        self._path = options.path
        self._free_ports = free_ports()
        self.namespace_pids = namespace_pids or {}
        self._addresses = {}
        self._more_addresses = {}
        self._variables = {}

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        for program in self.programs:
            program.kill()
        left = self._left_after_grace() if kind is None else ()
        if left:
            error = Failure(f"left running: {', '.join(map(name_of, left))}")
        if error is not None:
            self._print_outputs()
            print(f"FAILED: {error}", flush=True)
        end_processes_that_name(self.folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        if isinstance(error, Failure):
            sys.exit(1)

    def address(self, node):
        """Returns an address of 127.0.0.0/8 that no other testbed has: 22 bits of it are this process's id."""
        if node not in self._addresses:
            number = len(self._addresses) + 1
            if number > 3:
                raise ValueError("a testbed has at most three nodes on loopback")
            value = (os.getpid() & 0x3FFFFF) << 2 | number
            self._addresses[node] = f"127.{value >> 16}.{value >> 8 & 255}.{value & 255}"
        return self._addresses[node]

    def set_addresses(self, node, address, *more):
        self._addresses[node] = address
        self._more_addresses[node] = more

    def set_variables(self, node, **variables):
        """Sets variables of the node's programs: VERBATIM_PROTOCOL="iwarp"."""
        self._variables[node] = variables

    def free_port(self):
        """Returns a TCP port without a listener."""
        return next(self._free_ports)

    def environment(self):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("VERBATIM")}
        environment["XDG_RUNTIME_DIR"] = self.folder
        environment["VERBATIM_CONFIG"] = f"{self.folder}/config"  # No configuration file of this machine.
        if self._path:
            environment["VERBATIM_PATH"] = self._path
        if self._preload:
            environment["LD_PRELOAD"] = self._preload
            # Debian's programs leak memory, which is not tested.
            environment.setdefault("ASAN_OPTIONS", "detect_leaks=0")
        return environment

    def _enter(self, node):
        """Returns the start of a command that runs in the node's network namespace."""
        if node not in self.namespace_pids:
            return []
        return ["nsenter", "--net", "--target", str(self.namespace_pids[node]), "--"]

    def run_options(self, node):
        """Returns the options of `verbatim run` for a program on the node."""
        addresses = [self.address(node), *self._more_addresses.get(node, ())]
        return ["--node", node, *(word for address in addresses for word in ("--address", address))]

    def start(self, node, argv, stdin=None):
        command = [f"{self.build}/bin/verbatim", "run", *self.run_options(node), "--", *argv]
        # No process outlives the test, even if ctest kills it for its time limit.
        command = ["setpriv", "--pdeathsig", "KILL", "--", *command]
        command = [*self._enter(node), *command]
        name = f"{os.path.basename(argv[0])} on node {node}"
        log_path = f"{self.folder}/{len(self.programs)}.log"
        environment = self.environment() | self._variables.get(node, {})
        program = Program(name, command, environment, log_path, stdin)
        self.programs.append(program)
        return program

    def start_server(self, node, argv, port):
        """Starts a program that listens at `port`, and waits until it does."""
        program = self.start(node, argv)

        def ready():
            if program.ended():
                raise Failure(f"{program.name} ended with status {program.process.returncode} "
                              "before it listened")
            return listens(program.process.pid, port)

        wait_until(ready, 20, f"{program.name} to listen at port {port}")
        return program

    def run_pair(self, command, seconds):
        """Runs a program as server on node a and as client on node b; both must succeed. Its option -p is the
        port."""
        port = self.free_port()
        name, *words = command.split()
        argv = [name, "-p", str(port), *words]
        server = self.start_server("a", argv, port)
        self.start("b", [*argv, self.address("a")]).expect_success(seconds)
        server.expect_success(seconds)
        print(f"passed: {command}", flush=True)

    def run_connection(self, server, client, seconds):
        """Runs a server of rdma_cm on node a, and its client on node b, to whose command the server's address is
        appended; both must succeed. A server that does not end (rping -P) is stopped."""
        program = self.start("a", server.split())
        wait_until(lambda: self.bound_ports("a"), seconds, f"{server} to listen")
        self.start("b", [*client.split(), self.address("a")]).expect_success(seconds)
        if "-P" in server.split():
            program.kill()
        else:
            program.expect_success(seconds)
        wait_until(lambda: not self.bound_ports("a"), seconds, f"{server} to be forgotten")
        print(f"passed: {client}", flush=True)

    def expect_output(self, node, argv, *words):
        """Runs a program that must print all of these."""
        program = self.start(node, argv)
        program.expect_success(OUTPUT_SECONDS_MAX)
        missing = [word for word in words if word not in program.output()]
        if missing:
            raise Failure(f"{' '.join(argv)} does not say {missing}")

    @staticmethod
    def is_status_of(entry, node):
        return entry["node"] == node

    def node_status(self, node):
        """Returns the node's part of `verbatim status --json`; None if it does not run."""
        command = [*self._enter(node), f"{self.build}/bin/verbatim", "status", "--json"]
        done = subprocess.run(command, check=False,
                              env=self.environment(), capture_output=True, text=True, timeout=30)
        nodes = json.loads(done.stdout) if done.returncode == 0 else []
        return next((entry for entry in nodes if self.is_status_of(entry, node)), None)

    def status(self, node):
        """Returns the node's programs in `verbatim status --json`."""
        entry = self.node_status(node)
        return entry["programs"] if entry else []

    def bound_ports(self, node):
        """Returns the ports that rdma_cm ids of the node's programs have bound."""
        return [port for program in self.status(node) for port in program.get("ports", [])]

    def processes(self):
        """Returns the ids of all processes of this testbed, agents and daemons included."""
        return processes_that_name(self.folder)

    def agents(self):
        """Returns the process ids of the agents that this testbed's programs have started."""
        return [pid for pid in self.processes() if name_of(pid) == "verbatimd"]

    def _left_after_grace(self):
        try:
            wait_until(lambda: not self.processes(), self.GRACE_SECONDS, "all processes to end")
        except Failure:
            pass
        return self.processes()

    def _print_outputs(self):
        for program in self.programs:
            print(f"--- {program.name}: status {program.process.returncode}")
            print("    " + " ".join(program.argv))
            print(program.output().rstrip())
        print("---")
