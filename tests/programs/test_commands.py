#!/usr/bin/env python3
"""The `verbatim` command as a person meets it: exit statuses, what it prints, what it says of mistakes."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tool"))

import command_help  # noqa: E402
from testbed import Testbed, option_parser, wait_until  # noqa: E402

# Set in main: the testbed that all tests share.
LAB = None


def verbatim(*argv, shell=False, **variables):
    """Runs the command to its end in the testbed's environment."""
    environment = LAB.environment() | variables
    command = argv[0] if shell else [f"{LAB.build}/bin/verbatim", *argv]
    return subprocess.run(command, env=environment, shell=shell, text=True, check=False, timeout=60,
                          stdin=subprocess.DEVNULL, capture_output=True)


class Run(unittest.TestCase):
    def test_exit_status_is_passed_on(self):
        self.assertEqual(verbatim("run", "--", "sh", "-c", "exit 7").returncode, 7)
        self.assertEqual(verbatim("run", "--", "true").returncode, 0)

    def test_signal_is_passed_on(self):
        self.assertEqual(verbatim("run", "--", "sh", "-c", "kill -9 $$").returncode, -9)

    def test_command_that_is_not_there(self):
        done = verbatim("run", "--", "no_such_command")
        self.assertEqual(done.returncode, 127)
        self.assertIn("no_such_command: no such command", done.stderr)

    def test_roots_folders_are_searched_last(self):
        """There are opensm and the diagnostic programs, and an ordinary user's PATH does not lead there."""
        path = "/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"
        for words in (["chroot", "--version"], ["sh", "-c", "chroot --version"]):
            done = verbatim("run", "--", *words, PATH=path)
            self.assertIn("chroot (GNU coreutils)", done.stdout, done.stderr)
        self.assertTrue(verbatim("run", "--", "sh", "-c", "echo $PATH", PATH=path).stdout.startswith(f"{path}:"))

    def test_a_package_is_named_for_a_command_that_is_not_there(self):
        for command, package in (("ib_no_bw", "perftest"), ("ibno", "infiniband-diags"), ("ibv_no", "ibverbs-utils")):
            self.assertIn(f"the package that has it (Debian: {package})", verbatim("run", "--", command).stderr)

    def test_file_that_cannot_be_executed(self):
        done = verbatim("run", "--", "/etc/passwd")
        self.assertEqual(done.returncode, 126)
        self.assertIn("not an executable", done.stderr)

    def test_command_is_missing(self):
        self.assertEqual(verbatim("run").returncode, 2)

    def test_impossible_node_and_address(self):
        self.assertEqual(verbatim("run", "--node", "a/b", "--", "true").returncode, 2)
        done = verbatim("run", "--address", "nonsense", "--", "true")
        self.assertEqual(done.returncode, 2)
        self.assertIn("'nonsense' is not an IP address", done.stderr)

    def test_options_after_the_command_are_the_commands(self):
        done = verbatim("run", "--node", "words", "--", "echo", "--node", "b", "--", "--help")
        self.assertEqual(done.stdout, "--node b -- --help\n")

    def test_variables(self):
        done = verbatim("run", "--node", "many", "--address", "127.0.0.2", "--address", "127.0.0.4",
                        "--", "sh", "-c", "echo $VERBATIM_NODE $VERBATIM_ADDRESS; "
                        "ls ${LD_LIBRARY_PATH%%:*}/libibverbs.so.1")
        self.assertEqual(done.stdout.splitlines()[0], "many 127.0.0.2,127.0.0.4")
        self.assertEqual(done.returncode, 0)
        done = verbatim("run", "--node", "many", "--address", "127.0.0.2,127.0.0.4", "--", "sh", "-c",
                        "echo $VERBATIM_ADDRESS")
        self.assertEqual(done.stdout, "127.0.0.2,127.0.0.4\n")


class View(unittest.TestCase):
    """The programs' view of the device in /sys and /dev, before any program has opened it."""

    def shell(self, script):
        done = verbatim("run", "--node", "a", "--address", LAB.address("a"), "--", "bash", "-c", script)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout.splitlines()

    def test_a_shell_and_its_children_find_the_device(self):
        lines = self.shell("ls /sys/class/infiniband; cd /sys/class/infiniband/verbatim0/ports/1; "
                           "cat link_layer gid_attrs/types/1; ls /sys/class/infiniband/*/device/net")
        self.assertEqual(lines, ["verbatim0", "Ethernet", "RoCE v2", "lo"])

    def test_the_verbs_device_is_a_character_device(self):
        self.assertEqual(self.shell("ls /dev/infiniband; stat -L -c %F /dev/infiniband/uverbs0; "
                                    "test -r /dev/infiniband/uverbs0 -a -w /dev/infiniband/uverbs0"),
                         ["uverbs0", "character special file"])

    def test_links_resolve_to_paths_of_sys(self):
        self.assertEqual(self.shell("realpath /sys/class/infiniband/verbatim0/../.."),
                         ["/sys/devices/virtual/verbatim"])

    def test_long_listings_have_nothing_to_complain_of(self):
        done = verbatim("run", "--node", "a", "--address", LAB.address("a"), "--",
                        "ls", "-lR", "/sys/class/infiniband/", "/dev/infiniband/")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_the_view_goes_with_the_node(self):
        self.shell("sleep 0.7; test -e $VERBATIM_VIEW/sys/class/infiniband/verbatim0/node_guid")
        folder = self.shell("echo $VERBATIM_VIEW")[0]
        wait_until(lambda: not os.path.exists(folder), 5, "the view to go")


class Env(unittest.TestCase):
    def test_a_shell_is_on_the_node_from_then_on(self):
        address = LAB.address("a")
        done = verbatim(f'eval "$({LAB.build}/bin/verbatim env --node a --address {address})" && '
                        "ibv_devinfo", shell=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("PORT_ACTIVE", done.stdout)


class Devices(unittest.TestCase):
    def test_shows_what_programs_see(self):
        variables = {"VERBATIM_NODE": "a", "VERBATIM_ADDRESS": LAB.address("a")}
        done = verbatim("devices", **variables)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"::ffff:{LAB.address('a')}", done.stdout)
        seen = verbatim("run", "--", "ibv_devices", **variables).stdout.split()
        self.assertIn(seen[-2], done.stdout)  # The name.
        self.assertIn(seen[-1], done.stdout.replace(":", ""))  # The GUID.


class Status(unittest.TestCase):
    def test_nothing_runs(self):
        done = verbatim("status", XDG_RUNTIME_DIR=f"{LAB.folder}/none")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("No node runs", done.stdout)

    def test_shows_a_program_and_its_queue_pairs(self):
        program = LAB.start("a", [f"{LAB.build}/bin/queue_pairs", "4"], stdin=subprocess.PIPE)
        while not program.output().endswith("ready\n"):
            self.assertFalse(program.ended(), program.output())
        shown = verbatim("status")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("queue_pairs", shown.stdout)
        self.assertEqual(shown.stdout.count("RTS"), 4, shown.stdout)
        nodes = json.loads(verbatim("status", "--json").stdout)
        # 'verbatim run' of earlier tests may have left nodes that are about to end.
        self.assertIn("a", [node["node"] for node in nodes])
        self.assertIn("a", verbatim("status", "--names").stdout.splitlines())
        self.assertEqual(verbatim("status", "--names", "--json").returncode, 2)
        program.process.stdin.close()
        self.assertEqual(program.wait(30), 0)

    def test_shows_services_and_what_does_not_answer(self):
        folder = tempfile.mkdtemp(dir=LAB.folder)
        variables = {"XDG_RUNTIME_DIR": folder}
        owner = subprocess.Popen(["sleep", "600"])
        for name in ("one", "two"):
            reading, writing = os.pipe()
            subprocess.Popen([f"{LAB.build}/bin/echo_daemon", "--name", name, "--ready-fd", str(writing),
                              "--ends-with", str(owner.pid)], pass_fds=[writing], env=os.environ | variables)
            os.close(writing)
            self.assertTrue(os.read(reading, 100).startswith(b"0"))
            os.close(reading)
        try:
            self.assertIn("service echo 'one': process ", verbatim("status", **variables).stdout)
            services = {one["name"]: one for one in json.loads(verbatim("status", "--json", **variables).stdout)}
            self.assertEqual(services["two"]["answers"], 0)
            os.kill(services["one"]["process"], signal.SIGSTOP)
            shown = verbatim("status", **variables)
            self.assertEqual(shown.returncode, 0, shown.stderr)
            self.assertIn(f"service echo 'one': echo 'one' (process {services['one']['process']}) does not answer",
                          shown.stdout)
            os.kill(services["one"]["process"], signal.SIGKILL)
            self.assertNotIn("'one'", verbatim("status", **variables).stdout)
        finally:
            owner.kill()
            owner.wait()

    def test_an_agent_that_is_stopped_is_shown_as_such(self):
        program = LAB.start("stopped", [f"{LAB.build}/bin/queue_pairs", "2"], stdin=subprocess.PIPE)
        while not program.output().endswith("ready\n"):
            self.assertFalse(program.ended(), program.output())
        nodes = json.loads(verbatim("status", "--json").stdout)
        agent = next(node["agent_pid"] for node in nodes if node["node"] == "stopped")
        os.kill(agent, signal.SIGSTOP)
        shown = verbatim("status")
        os.kill(agent, signal.SIGCONT)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn(f"node stopped: the agent (process {agent}) does not answer", shown.stdout)
        program.process.stdin.close()
        self.assertEqual(program.wait(30), 0)


class Help(unittest.TestCase):
    def test_help_and_version(self):
        for command in ("", *command_help.commands(LAB.build)):
            words = command.split()
            done = verbatim(*words, "--help")
            self.assertEqual(done.returncode, 0)
            self.assertIn("Examples:", done.stdout)
            self.assertEqual([line for line in done.stdout.splitlines() if len(line) > 80], [])
            done = verbatim(*words, "--version")
            self.assertEqual(done.returncode, 0)
            self.assertRegex(done.stdout, r"^verbatim \d+\.\d+\.\d+\n$")

    def test_unknown_words_are_refused_and_what_may_be_meant_is_told(self):
        for words, told in ((("nonsense",), "verbatim: there is no command 'nonsense'"),
                            (("stauts",), "there is no command 'stauts'; 'status' may be meant"),
                            ((), "verbatim: which command?"),
                            (("--nonsense",), "verbatim: there is no option '--nonsense'"),
                            (("status", "--jsn"), "verbatim status: there is no option '--jsn'; '--json' may be meant"),
                            (("status", "extra"), "verbatim status: 'extra' is one word too many"),
                            (("devices", "--node", "a"), "verbatim devices: there is no option '--node'"),
                            (("env", "--node"), "verbatim env: option '--node' needs a value"),
                            (("run", "--adress", "127.0.0.2", "--", "true"), "'--address' may be meant"),
                            (("doctor", "--nod", "a"), "'--node' may be meant"),
                            (("run",), "verbatim run: which command?")):
            done = verbatim(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(told, done.stderr)
            self.assertEqual(done.stdout, "")


def main():
    global LAB
    options = option_parser(__doc__).parse_args()
    with Testbed(options) as LAB:
        result = unittest.main(argv=sys.argv[:1], exit=False, verbosity=2).result
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
