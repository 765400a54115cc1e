#!/usr/bin/env python3
"""Completion of `verbatim` in bash, zsh and fish: each offers the commands and options that `--help` tells of, and no
others, the values that options may have, the nodes that run, and after -- what the shell itself offers."""

import os
import pathlib
import pty
import select
import shlex
import shutil
import subprocess
import sys
import time
import unittest

import command_help

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))

from testbed import Testbed, option_parser, wait_until  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "completion"
LAB = None  # Set in main.


def environment():
    variables = LAB.environment()
    variables.pop("LD_PRELOAD", None)  # A sanitizer's, for the commands but not for shells.
    return variables | {"PATH": f"{LAB.build}/bin:{variables['PATH']}", "HOME": LAB.folder, "TERM": "dumb",
                        "LC_ALL": "C.UTF-8"}


def run(argv, **more):
    done = subprocess.run(argv, env=environment(), text=True, check=False, capture_output=True, timeout=60, **more)
    if done.returncode != 0 or done.stderr:
        raise AssertionError(f"{argv}: {done.returncode} {done.stderr}")
    return done.stdout


class Bash:
    """Calls the function as the shell does, without bash-completion, which is another program."""

    name = "bash"

    def complete(self, line):
        words = line.split(" ")
        listed = " ".join(shlex.quote(word) for word in words)
        return set(run(["bash", "--norc", "-c",
                        f"source {FOLDER}/verbatim.bash; COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; "
                        f"_verbatim; printf '%s\\n' \"${{COMPREPLY[@]}}\""]).split("\n")) - {""}

    def close(self):
        pass


class Fish:
    name = "fish"

    def complete(self, line):
        text = run(["fish", "--no-config", "-c",
                    f"source {FOLDER}/verbatim.fish; complete -C {shlex.quote(line)}"])
        return {entry.split("\t")[0] for entry in text.splitlines()}

    def close(self):
        pass


class Zsh:
    """Its completion needs the line editor, which needs a terminal: ^D lists the matches."""

    name = "zsh"
    SECONDS_MAX = 60
    # Keys reach the line editor only after it has shown this prompt; before, the terminal handles
    # ^D and ^U.
    PROMPT = ">ready> "

    def __init__(self):
        self._master, slave = pty.openpty()
        self._process = subprocess.Popen(["zsh", "-f", "-i"], env=environment() | {"PROMPT": self.PROMPT}, stdin=slave,
                                         stdout=slave, stderr=slave, start_new_session=True)
        os.close(slave)
        self._read_until(self.PROMPT)
        self._command(f"fpath=({FOLDER} $fpath); autoload -U compinit; compinit -u -D; unset zle_bracketed_paste; "
                      "LISTMAX=10000; setopt nolist_types; stty cols 60 rows 500; "
                      "zstyle ':completion:*' list-separator '#'")

    def _read_until(self, *ends):
        """Returns the terminal's output up to all of these, one after the other."""
        text = ""
        deadline = time.monotonic() + self.SECONDS_MAX
        position = 0
        for end in ends:
            while (found := text.find(end, position)) < 0:
                if not select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))[0]:
                    raise AssertionError(f"zsh does not say {end}, but: {text}")
                text += os.read(self._master, 4096).decode(errors="replace")
            position = found + len(end)
        return text

    def _command(self, line):
        """The end mark is written in two parts, so that the echo of the command does not match."""
        os.write(self._master, f"{line}; print -r -- en''d-of-$((40 + 2))\n".encode())
        return self._read_until("end-of-42\r\n", self.PROMPT)

    def complete(self, line):
        os.write(self._master, line.encode() + b"\x04\x15")  # List completions; then clear the line.
        rows = self._command("true").replace("\r", "\n").split("\n")
        return {word for row in rows if line.strip() not in row and self.PROMPT not in row
                for word in row.split("#")[0].split()}

    def close(self):
        os.close(self._master)
        self._process.kill()
        self._process.wait()


class Completion:
    """The words that each shell must offer. A set of `complete` may have other texts, such as parts of descriptions
    (zsh); options and commands are recognised by their form."""

    shell_class = None

    @classmethod
    def setUpClass(cls):
        if not shutil.which(cls.shell_class.name):
            raise unittest.SkipTest(f"{cls.shell_class.name} is not installed")
        cls.shell = cls.shell_class()

    @classmethod
    def tearDownClass(cls):
        cls.shell.close()

    def options(self, line):
        return {word for word in self.shell.complete(line) if word.startswith("--") and len(word) > 2}

    def test_commands(self):
        offered = self.shell.complete("verbatim ")
        commands = command_help.commands(LAB.build)
        self.assertTrue({name for name in commands if " " not in name} <= offered, offered)
        for group in ("fabric", "cluster", "target", "nfs", "disk", "nic", "ipoib", "lnet", "rds"):
            below = {name.split()[1] for name in commands if name.startswith(f"{group} ")}
            self.assertTrue(below <= self.shell.complete(f"verbatim {group} "), group)
        for command in ("nonsense", "prune"):
            self.assertNotIn(command, offered)

    def test_options_are_those_of_help(self):
        for command, options in command_help.options(LAB.build).items():
            line = f"verbatim {command} --" if command else "verbatim --"
            wanted = {option for option in options if option.startswith("--")}
            self.assertEqual(self.options(line), wanted, line)

    def test_values(self):
        self.assertTrue({"roce", "iwarp"} <= self.shell.complete("verbatim run --protocol "))
        self.assertTrue({"v2", "v1,v2"} <= self.shell.complete("verbatim env --roce "))
        self.assertIn("127.0.0.2", self.shell.complete("verbatim doctor --address "))
        self.assertIn("opensm", self.shell.complete("verbatim fabric up net --manager "))
        self.assertIn("torus-2d", self.shell.complete("verbatim fabric generate "))
        self.assertIn("unlimited", self.shell.complete("verbatim fabric up net --rate "))
        self.assertIn("4xHDR", self.shell.complete("verbatim fabric generate --rate "))

    def test_nodes_that_run(self):
        self.assertIn("a", self.shell.complete("verbatim run --node "))

    def test_after_dashes_comes_another_command(self):
        self.assertIn("sleep", self.shell.complete("verbatim run --node a -- slee"))
        self.assertIn("sleep", self.shell.complete("verbatim doctor -- slee"))
        with open(f"{LAB.folder}/verbatim-file", "w", encoding="ascii"):
            pass
        offered = " ".join(self.shell.complete(f"verbatim run -- cat {LAB.folder}/verbatim-f"))
        self.assertIn("verbatim-file", offered)
        self.assertEqual(self.options("verbatim run -- true --nod"), set())


class InBash(Completion, unittest.TestCase):
    shell_class = Bash


class InZsh(Completion, unittest.TestCase):
    shell_class = Zsh


class InFish(Completion, unittest.TestCase):
    shell_class = Fish


def main():
    global LAB
    options = option_parser(__doc__).parse_args()
    with Testbed(options) as LAB:
        program = LAB.start("a", ["sleep", "1000"])
        wait_until(lambda: LAB.node_status("a"), 30, "node a")
        result = unittest.main(argv=sys.argv[:1], exit=False, verbosity=2).result
        program.kill()
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
