#!/usr/bin/env python3
"""`verbatim doctor` with real faults: it names each, says what to do, and ends with status 1."""

import fcntl
import json
import os
import pty
import resource
import shutil
import socket
import stat
import struct
import subprocess
import sys
import termios
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))

from testbed import Testbed, option_parser  # noqa: E402

LAB = None  # Set in main.
ROCE_PORT = 4791
NOBODY = 65534


def doctor(*argv, limits=(), prefix=(), **variables):
    """Runs the command; returns its exit status and its findings."""
    def set_limits():
        for which, value in limits:
            resource.setrlimit(which, (value, value))

    command = [*prefix, f"{LAB.build}/bin/verbatim", "doctor", "--json", *argv]
    done = subprocess.run(command, env=LAB.environment() | variables, text=True, check=False, timeout=60,
                          capture_output=True, stdin=subprocess.DEVNULL, preexec_fn=set_limits)
    try:
        return done.returncode, json.loads(done.stdout)
    except json.JSONDecodeError:
        raise AssertionError(f"{command}: {done.stdout}{done.stderr}") from None


class Case(unittest.TestCase):
    maxDiff = None

    def expect(self, outcome, verdict, subject, text):
        """Checks that one of the findings is this one; the exit status depends on the faults."""
        status, report = outcome
        self.assertEqual(status, 1 if report["faults"] else 0)
        found = [one for one in report["findings"]
                 if one["verdict"] == verdict and one["subject"] == subject and text in one["text"]]
        self.assertTrue(found, json.dumps(report["findings"], indent=1))
        if verdict != "ok":
            self.assertTrue(found[0]["advice"])
        return found[0]

    def on_node(self, *argv, **more):
        return doctor("--node", "a", "--address", LAB.address("a"), *argv, **more)


class Machine(Case):
    def test_without_faults(self):
        status, report = self.on_node()
        self.assertEqual((status, report["faults"]), (0, 0), json.dumps(report, indent=1))
        self.expect((status, report), "ok", "node", f"{LAB.address('a')} on lo, over roce")
        self.expect((status, report), "ok", "device", "opens verbatim0")

    def test_misspelt_variable(self):
        self.expect(self.on_node(VERBATIM_NOED="a"), "fault", "variables", "VERBATIM_NODE may be meant")

    def test_wrong_value(self):
        outcome = self.on_node(VERBATIM_PATH="direkt")
        self.expect(outcome, "fault", "variables", "VERBATIM_PATH: 'direkt'")
        self.expect(outcome, "fault", "device", "VERBATIM_PATH=direkt is not")

    def test_wire_by_wish(self):
        self.expect(self.on_node(VERBATIM_PATH="wire"), "ok", "path", "the wire (UDP port 4791) to every peer")

    def test_runtime_folder_open_to_others(self):
        folder = f"{LAB.folder}/open"
        os.makedirs(f"{folder}/verbatim", exist_ok=True)
        os.chmod(f"{folder}/verbatim", 0o755)
        self.expect(self.on_node(XDG_RUNTIME_DIR=folder), "fault", "runtime folder", "mode 755")

    def test_port_is_taken(self):
        address = LAB.address("b")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as squatter:
            squatter.bind((address, ROCE_PORT))
            outcome = doctor("--node", "b", "--address", address)
            self.expect(outcome, "fault", "UDP port 4791",
                        f"{address}:4791 is taken by process {os.getpid()} (python3")
            self.expect(outcome, "fault", "node", "in use")
            # Another node is not affected.
            self.expect(self.on_node(), "note", "UDP port 4791", f"{address}:4791 is taken")

    def test_ports_of_a_node_are_its_own(self):
        program = LAB.start("a", ["sleep", "1000"])
        try:
            for _ in range(100):
                if LAB.node_status("a"):
                    break
            outcome = self.on_node()
            # Nodes of other tests may be there; they are foreign to this one.
            own = f"{LAB.address('a')}:{ROCE_PORT}"
            self.assertEqual([one for one in outcome[1]["findings"] if one["text"].startswith(own)], [])
            self.expect(outcome, "ok", "agents", "1 run (node a)")
        finally:
            program.kill()

    def test_few_descriptors(self):
        self.expect(self.on_node(limits=[(resource.RLIMIT_NOFILE, 24)]), "fault", "open files", "at most 24")

    def test_small_files(self):
        outcome = self.on_node(limits=[(resource.RLIMIT_FSIZE, 1 << 30)])
        self.expect(outcome, "fault", "file size", "no program can open the device")
        self.expect(outcome, "fault", "device", "file size limit")

    def test_small_address_space(self):
        if "SAN_OPTIONS" in " ".join(LAB.environment()):
            self.skipTest("sanitizers need address space")
        outcome = self.on_node(limits=[(resource.RLIMIT_AS, 4 << 30)])
        self.expect(outcome, "fault", "address space", "ulimit -v")
        self.expect(outcome, "fault", "device", "fails")

    def test_namespace_without_a_network(self):
        unshare = ("unshare", "-rn")
        if subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode != 0:
            self.skipTest("no user namespaces here")
        self.expect(doctor(prefix=unshare), "fault", "loopback", "lo is down")
        loopback_up = (*unshare, "sh", "-c", 'ip link set lo up; exec "$@"', "sh")
        outcome = doctor(prefix=loopback_up)
        self.expect(outcome, "note", "interfaces", "no address but the loopback")
        self.expect(outcome, "ok", "device", "opens verbatim0")

    def test_wrong_option_value_is_a_usage_error(self):
        done = subprocess.run([f"{LAB.build}/bin/verbatim", "doctor", "--node", "a/b"], text=True, check=False,
                              env=LAB.environment(), capture_output=True)
        self.assertEqual(done.returncode, 2, done.stderr)


class Programs(Case):
    def script(self, text, name="script"):
        path = f"{LAB.folder}/{name}"
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(path, 0o755)
        return path

    def about(self, program, **more):
        return self.on_node("--", program, **more)

    def test_good_program(self):
        outcome = self.about(f"{LAB.build}/bin/doctor_good")
        self.expect(outcome, "ok", "libraries", "libibverbs.so.1 of Verbatim")
        self.assertEqual(outcome[0], 0)

    def test_missing(self):
        self.expect(self.about("no_such_command"), "fault", "file", "no such command")

    def test_not_executable(self):
        self.expect(self.about("/etc/passwd"), "fault", "file", "not an executable")

    def test_rpath(self):
        self.expect(self.about(f"{LAB.build}/bin/doctor_rpath"), "fault", "libraries",
                    "doctor_rpath goes before LD_LIBRARY_PATH")

    def test_library_by_its_path(self):
        self.expect(self.about(f"{LAB.build}/bin/doctor_late"), "fault", "dlopen", "LD_LIBRARY_PATH does not lead")

    def test_static_libibverbs(self):
        self.expect(self.about(f"{LAB.build}/bin/doctor_late"), "fault", "libibverbs", "is linked into")

    def test_static_program(self):
        program = f"{LAB.build}/bin/doctor_static"
        if not os.path.exists(program):
            self.skipTest("no static program in this build")
        self.expect(self.about(program), "fault", "loader", "a static program")

    def test_set_user_id(self):
        program = f"{LAB.folder}/setuid"
        shutil.copy(f"{LAB.build}/bin/doctor_good", program)
        try:
            os.chown(program, NOBODY, NOBODY)
        except PermissionError:
            self.skipTest("only root gives files away")
        os.chmod(program, 0o755 | stat.S_ISUID)
        outcome = self.about(program)
        self.expect(outcome, "fault", "rights", "gains rights")
        self.expect(outcome, "note", "path", "none")

    def test_scripts(self):
        outcome = self.about(self.script("#!/usr/bin/env python3\n"))
        self.expect(outcome, "ok", "file", "python3 runs")
        self.assertEqual(outcome[0], 0)
        self.expect(self.about(self.script("#!/no/such/shell\n")), "fault", "file", "/no/such/shell")
        self.expect(self.about(self.script("echo\n")), "note", "file", "a shell reads it")

    def test_launcher(self):
        self.expect(self.about(self.script("#!/bin/sh\n", "docker")), "note", "launcher", "a container")

    def test_other_architecture(self):
        with open(f"{LAB.build}/bin/doctor_good", "rb") as file:
            bytes_ = bytearray(file.read())
        bytes_[18:20] = struct.pack("<H", 22)  # e_machine: EM_S390.
        path = self.script("", "s390")
        with open(path, "wb") as file:
            file.write(bytes_)
        self.expect(self.about(path), "fault", "architecture", "s390")


class Text(Case):
    def test_on_a_terminal_it_is_coloured_and_broken(self):
        columns = 70
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 25, columns, 0, 0))
        environment = LAB.environment()
        environment.pop("NO_COLOR", None)
        with subprocess.Popen([f"{LAB.build}/bin/verbatim", "doctor", "--node", "a", "--address",
                               LAB.address("a")], env=environment, stdout=slave) as process:
            os.close(slave)
            text = b""
            try:
                while part := os.read(master, 4096):
                    text += part
            except OSError:
                pass  # The terminal closed with its last user.
            self.assertEqual(process.wait(60), 0)
        os.close(master)
        text = text.decode()
        self.assertIn("\033[32mok\033[0m", text)
        for line in text.replace("\033[32m", "").replace("\033[33m", "").replace("\033[0m", "").splitlines():
            is_one_word = " " not in line.split("  ")[-1].strip()  # A path is not wrapped.
            self.assertTrue(len(line) <= columns or is_one_word, line)

    def test_elsewhere_it_is_plain(self):
        done = subprocess.run([f"{LAB.build}/bin/verbatim", "doctor", "--node", "a", "--address",
                               LAB.address("a")], text=True, check=False, env=LAB.environment(), capture_output=True)
        self.assertNotIn("\033", done.stdout)
        self.assertRegex(done.stdout, r"no faults, (no|\d+) notes?\.\n$")


def main():
    global LAB
    options = option_parser(__doc__).parse_args()
    with Testbed(options) as LAB:
        result = unittest.main(argv=sys.argv[:1], exit=False, verbosity=2).result
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
