"""Fabrics for tests: each bed has a runtime folder of its own, so that beds may run side by side, and leaves nothing
behind."""

import contextlib
import ipaddress
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))

from leftovers import end_processes_that_name, new_folder, processes_that_name  # noqa: E402
from testbed import Failure, Testbed, free_ports, listens, wait_until  # noqa: E402

os.environ["PATH"] += ":/usr/sbin:/sbin"  # To see whether Debian's opensm and diagnostic programs are installed.
ORDINARY_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"  # Of a user on Debian, without sbin.

# Runtime folders lie in memory, as those of users do who have logged in: while others write to the same disk, each of
# a host's 200 files in the view takes milliseconds, and the daemon answers nobody meanwhile.
RUNTIME_FOLDERS = "/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp"
SECONDS_MAX = 60
WORD_BYTES = 4  # PortXmitData counts words.

# Three switches in a triangle, four hosts; ibsim's format, whose GUIDs follow from the order.
TRIANGLE = """
Switch 36 "S1"
[1] "H1"[1]
[2] "H2"[1]
[3] "S2"[3]
[4] "S3"[3]

Switch 36 "S2"
[1] "H3"[1]
[3] "S1"[3]
[4] "S3"[4]

Switch 36 "S3"
[1] "H4"[1]
[3] "S1"[4]
[4] "S2"[4]

Hca 2 "H1"
[1] "S1"[1]

Hca 2 "H2"
[1] "S1"[2]

Hca 2 "H3"
[1] "S2"[1]

Hca 2 "H4"
[1] "S3"[1]
"""
# (switch, port): (peer, port).
CABLES = {("S1", 1): ("H1", 1), ("S1", 2): ("H2", 1), ("S1", 3): ("S2", 3), ("S1", 4): ("S3", 3),
          ("S2", 1): ("H3", 1), ("S2", 3): ("S1", 3), ("S2", 4): ("S3", 4),
          ("S3", 1): ("H4", 1), ("S3", 3): ("S1", 4), ("S3", 4): ("S2", 4)}
HOSTS = ("H1", "H2", "H3", "H4")
SWITCHES = ("S1", "S2", "S3")

# A chain: what goes from H1 to H2 crosses three switches.
CHAIN = """
Switch 8 "S1"
[1] "H1"[1]
[2] "S2"[1]

Switch 8 "S2"
[1] "S1"[2]
[2] "S3"[1]

Switch 8 "S3"
[1] "S2"[2]
[2] "H2"[1]

Hca 1 "H1"
[1] "S1"[1]

Hca 1 "H2"
[1] "S3"[2]
"""

# A manager for tests: it notices within a second what another may take a minute for. And its switches discard nothing
# for its age (20: never). By default they discard what has waited for a second, or 0.3 seconds in front of a host: so
# long a busy machine may keep a receiver off its processors.
MANAGER_FOR_TESTS = """max_wire_smps 64
sweep_interval 1
sminfo_polling_timeout 100
polling_retry_number 2
force_log_flush TRUE
fsync_high_avail_files FALSE
log_flags 0x03
packet_life_time 20
head_of_queue_lifetime 20
leaf_head_of_queue_lifetime 20
"""


class FabricBed:
    """Use as a context manager. `prefix`: a command that runs all others, such as `nsenter`; `address`: where clients
    find servers that run with it."""

    def __init__(self, options, prefix=(), address="127.0.0.1"):
        self.build = os.path.abspath(options.build)
        self.folder = new_folder("fabricbed", RUNTIME_FOLDERS)
        self._prefix = prefix
        self._address = address
        self._preload = options.preload
        self._programs = []
        self._free_ports = free_ports()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        for program in self._programs:
            self.end(program)
        if error is not None:
            self._print_logs()
        try:
            self.verbatim("fabric", "down", check=False)
        finally:
            left = self.processes()
            end_processes_that_name(self.folder)
            shutil.rmtree(self.folder, ignore_errors=True)
        if kind is None and left:
            raise Failure(f"processes {left} are left running")

    def end_with(self, test):
        """Ends the fabric after the test, and prints what its programs have said if the test has failed."""
        def end():
            result = test._outcome.result  # unittest tells a test's outcome nowhere else.
            has_failed = any(failed is test for failed, _ in result.failures + result.errors)
            self.__exit__(None, has_failed or None, None)

        test.addCleanup(end)

    def environment(self):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("VERBATIM", "OSM_"))}
        environment["XDG_RUNTIME_DIR"] = self.folder
        environment["PATH"] = ORDINARY_PATH
        if self._preload:
            environment["LD_PRELOAD"] = self._preload
            environment.setdefault("ASAN_OPTIONS", "detect_leaks=0")  # Debian's programs leak.
        return environment

    def verbatim(self, *words, check=True, stdin=None):
        """What the command prints."""
        done = subprocess.run([*self._prefix, f"{self.build}/bin/verbatim", *words], input=stdin, text=True, check=False,
                              env=self.environment(), capture_output=True, timeout=SECONDS_MAX)
        if check and done.returncode != 0:
            raise Failure(f"verbatim {' '.join(words)}: {done.returncode} {done.stdout}{done.stderr}")
        return done.stdout

    def up(self, text, *options):
        """It ends with this process, even where ctest kills it for its time limit."""
        self.verbatim("fabric", "up", "-", "--ends-with", str(os.getpid()), *options, stdin=text)

    def _on_host(self, host, argv):
        return [*self._prefix, f"{self.build}/bin/verbatim", "run", "--host", host, "--", *argv]

    @contextlib.contextmanager
    def elsewhere(self, prefix, address):
        """Within it, the fabric is that of before, and commands run with another prefix."""
        before = self._prefix, self._address
        self._prefix, self._address = prefix, address
        try:
            yield
        finally:
            self._prefix, self._address = before

    def run(self, host, *argv, check=True):
        """What a program says that runs on a host."""
        done = subprocess.run(self._on_host(host, argv), text=True, check=False, env=self.environment(),
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS_MAX)
        if check and done.returncode != 0:
            raise Failure(f"{' '.join(argv)} on {host}: {done.returncode} {done.stdout}{done.stderr}")
        return done.stdout

    @staticmethod
    def with_own(folder, *argv):
        """The command of a program that has an empty folder in the place of one of the system's."""
        return ("unshare", "--map-root-user", "--mount", "sh", "-c", f'mount -t tmpfs none {folder} && exec "$@"', "sh",
                *argv)

    def start(self, host, *argv):
        """A program that runs on."""
        with open(f"{self.folder}/{os.path.basename(argv[0])}-{host}.out", "wb") as output:
            # Nothing outlives the test, even where ctest kills it for its time limit.
            command = ["setpriv", "--pdeathsig", "KILL", "--", *self._on_host(host, argv)]
            program = subprocess.Popen(command, env=self.environment(), stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=output)
        self._programs.append(program)
        return program

    def start_dialogue(self, host, *argv):
        """A program that runs on, with which the test talks in lines over its standard input and output."""
        program = subprocess.Popen(self._on_host(host, argv), env=self.environment(), text=True, bufsize=1,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._programs.append(program)
        return program

    def start_server(self, host, *argv):
        """Starts a program that listens at the TCP port of its option -p, and waits until it does. Returns the program
        and the command of its client."""
        port = next(self._free_ports)
        argv = (*argv, "-p", str(port))
        server = self.start(host, *argv)
        self.wait_until_listening(server, port)
        return server, (*argv, self._address)

    @staticmethod
    def wait_until_listening(server, port):
        def ready():
            if server.poll() is not None:
                raise Failure(f"the server ended with status {server.returncode} before it listened at port {port}")
            return listens(server.pid, port)

        wait_until(ready, SECONDS_MAX, f"the server to listen at port {port}")

    def run_pair(self, server_host, client_host, *argv):
        """Runs a program as server and as client; both must succeed. Returns what the client says."""
        server, command = self.start_server(server_host, *argv)
        said = self.run(client_host, *command)
        if server.wait(SECONDS_MAX) != 0:
            raise Failure(f"the server {argv[0]} on {server_host} ended with status {server.returncode}")
        return said

    def start_manager(self, host, *options, settings=""):
        """opensm; `settings`: lines of its configuration. Returns the program and the path of its log."""
        configuration = f"{self.folder}/opensm.conf"
        with open(configuration, "w", encoding="ascii") as file:
            file.write(MANAGER_FOR_TESTS + settings + f"dump_files_dir {self.folder}\n")
        log = f"{self.folder}/opensm-{host}.log"
        return self.start(host, "opensm", "-F", configuration, "-f", log, *options), log

    def status(self, *options):
        """What `verbatim fabric show --json` says."""
        return json.loads(self.verbatim("fabric", "show", "--json", *options))

    def nodes(self):
        """The nodes of `status`, by name."""
        return {node["name"]: node for node in self.status()["nodes"]}

    def lids(self):
        """By name: of switches, and of port 1 of hosts."""
        return {name: node["ports"][0]["lid"] for name, node in self.nodes().items()}

    def hosts(self):
        """The hosts of `nodes`, each with the `gid` of its port 1."""
        hosts = {name: node for name, node in self.nodes().items() if node["kind"] == "host"}
        for host in hosts.values():
            guid = int(host["ports"][0]["guid"], 16)
            host["gid"] = str(ipaddress.IPv6Address(0xFE80 << 112 | guid))
        return hosts

    def hops(self, source, destination, path_bits=0):
        """The switches between two hosts, as ibtracert finds them in the forwarding tables; none if there is no route.
        With LMC above 0, each of the destination's LIDs has a route."""
        lids = self.lids()
        text = self.run(source, "ibtracert", str(lids[source]), str(lids[destination] + path_bits), check=False)
        return re.findall(r'switch port \S+ lid \S+ "(\w+)"', text)

    def counter(self, name, node, port, *options):
        """A counter of a port, as its performance agent says. Option -x of perfquery: one of 64 bits."""
        return int(fields_of(self.run("H1", "perfquery", *options, str(self.lids()[node]), str(port)))[name])

    def bytes_sent(self, switch, port):
        """What has left the switch at the port."""
        return self.counter("PortXmitData", switch, port, "-x") * WORD_BYTES

    def wait_until_active(self, *hosts):
        """Waits until a manager has brought the hosts' ports up."""
        wait_until(lambda: all("State: Active" in self.run(host, "ibstat") for host in hosts), SECONDS_MAX,
                   f"active ports of {hosts}")

    @staticmethod
    def end(program):
        if program.poll() is None:
            program.kill()
        program.wait()
        for pipe in filter(None, (program.stdin, program.stdout)):
            pipe.close()

    def processes(self):
        """Of this bed, daemon and manager, that still run."""
        return processes_that_name(self.folder)

    def daemon(self):
        """The process of this bed's fabric."""
        def is_daemon(pid):
            try:
                return os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "verbatim-fabricd"
            except OSError:
                return False  # It has ended.
        (daemon,) = filter(is_daemon, self.processes())
        return daemon

    def _print_logs(self):
        for folder, _, names in os.walk(self.folder):
            for name in names:
                if name in ("log", "output") or name.endswith((".log", ".out")):
                    with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                        print(f"--- {os.path.join(folder, name)}\n{file.read()[-4000:]}")


class HostsTestbed(Testbed):
    """A testbed whose nodes are hosts of a fabric that runs already. `hosts`: their names by those of the nodes."""

    def __init__(self, options, bed, hosts):
        super().__init__(options)
        self._bed = bed
        self._hosts = hosts
        shown = bed.hosts()
        for node, host in hosts.items():
            self.set_addresses(node, shown[host]["address"])

    def environment(self):
        return super().environment() | {"XDG_RUNTIME_DIR": self._bed.folder}

    def run_options(self, node):
        return ["--host", self._hosts[node]]

    def is_status_of(self, entry, node):
        return entry.get("host") == self._hosts[node]

    def processes(self):
        return []  # The fabric's, which end with it.


def run_tests():
    """Runs the test cases of the main program."""
    if not unittest.main(argv=sys.argv[:1], exit=False, verbosity=2).result.wasSuccessful():
        raise Failure("see above")


def text_of(path):
    """Of a log that may not be there yet."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def wait_for_text(path, text, count=1):
    wait_until(lambda: text_of(path).count(text) >= count, SECONDS_MAX, f"'{text}' in {path}")


def fields_of(text):
    """Of lines such as "Lid:......5": the values by their names; the first of each counts."""
    found = {}
    for name, value in re.findall(r"^\s*(\w[\w ]*?):?\.{2,}(.*)$", text, re.MULTILINE):
        found.setdefault(name, value.strip())
    return found
