"""Fabrics for tests: each bed has a runtime folder of its own, so that beds may run side by side, and leaves nothing
behind."""

import ipaddress
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))

from testbed import Failure, wait_until  # noqa: E402

SECONDS_MAX = 60

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

# A manager for tests: it notices within a second what another may take a minute for.
QUICK_MANAGER = """max_wire_smps 64
sweep_interval 1
sminfo_polling_timeout 100
polling_retry_number 2
force_log_flush TRUE
fsync_high_avail_files FALSE
log_flags 0x03
"""


class FabricBed:
    """Use as a context manager."""

    def __init__(self, options):
        self.build = os.path.abspath(options.build)
        self.folder = tempfile.mkdtemp(prefix="verbatim-fabricbed.", dir="/tmp")
        self._preload = options.preload
        self._programs = []

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        for program in self._programs:
            self.end(program)
        if error is not None:
            self._print_logs()
        self.verbatim("fabric", "down", check=False)
        left = self.processes()
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)
        if kind is None and left:
            raise Failure(f"processes {left} are left running")

    def environment(self):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("VERBATIM")}
        environment |= {"XDG_RUNTIME_DIR": self.folder, "PATH": f"{environment['PATH']}:/usr/sbin:/sbin",
                        "OSM_CACHE_DIR": self.folder, "OSM_TMP_DIR": self.folder}
        if self._preload:
            environment["LD_PRELOAD"] = self._preload
            environment.setdefault("ASAN_OPTIONS", "detect_leaks=0")  # Debian's programs leak.
        return environment

    def verbatim(self, *words, check=True, stdin=None):
        """What the command prints."""
        done = subprocess.run([f"{self.build}/bin/verbatim", *words], input=stdin, text=True, check=False,
                              env=self.environment(), capture_output=True, timeout=SECONDS_MAX)
        if check and done.returncode != 0:
            raise Failure(f"verbatim {' '.join(words)}: {done.returncode} {done.stdout}{done.stderr}")
        return done.stdout

    def up(self, text, *options):
        self.verbatim("fabric", "up", "-", *options, stdin=text)

    def _on_host(self, host, argv):
        return [f"{self.build}/bin/verbatim", "run", "--host", host, "--", *argv]

    def run(self, host, *argv, check=True):
        """What a program says that runs on a host."""
        done = subprocess.run(self._on_host(host, argv), text=True, check=False, env=self.environment(),
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS_MAX)
        if check and done.returncode != 0:
            raise Failure(f"{' '.join(argv)} on {host}: {done.returncode} {done.stdout}{done.stderr}")
        return done.stdout

    def start(self, host, *argv):
        """A program that runs on."""
        with open(f"{self.folder}/{os.path.basename(argv[0])}-{host}.out", "wb") as output:
            # Nothing outlives the test, even where ctest kills it for its time limit.
            command = ["setpriv", "--pdeathsig", "KILL", "--", *self._on_host(host, argv)]
            program = subprocess.Popen(command, env=self.environment(), stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=output)
        self._programs.append(program)
        return program

    def start_manager(self, host, *options):
        """opensm. Returns the program and the path of its log."""
        configuration = f"{self.folder}/opensm.conf"
        with open(configuration, "w", encoding="ascii") as file:
            file.write(QUICK_MANAGER + f"dump_files_dir {self.folder}\n")
        log = f"{self.folder}/opensm-{host}.log"
        return self.start(host, "opensm", "-F", configuration, "-f", log, *options), log

    def hosts(self):
        """Of each host by its name what `verbatim fabric show --json` says, and `gid` of its port 1."""
        hosts = {node["name"]: node for node in json.loads(self.verbatim("fabric", "show", "--json"))["nodes"]
                 if node["kind"] == "host"}
        for host in hosts.values():
            guid = int(host["ports"][0]["guid"], 16)
            host["gid"] = str(ipaddress.IPv6Address(0xFE80 << 112 | guid))
        return hosts

    @staticmethod
    def end(program):
        if program.poll() is None:
            program.kill()
        program.wait()

    def processes(self):
        """Of this bed, daemon and manager, that still run."""
        wanted = b"XDG_RUNTIME_DIR=" + self.folder.encode()
        found = []
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{entry}/environ", "rb") as environ:
                    if wanted in environ.read().split(b"\0"):
                        found.append(int(entry))
            except OSError:
                pass  # It has ended meanwhile.
        return found

    def _print_logs(self):
        for folder, _, names in os.walk(self.folder):
            for name in names:
                if name in ("log", "output") or name.endswith((".log", ".out")):
                    with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                        print(f"--- {os.path.join(folder, name)}\n{file.read()[-4000:]}")


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
