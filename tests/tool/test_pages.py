#!/usr/bin/env python3
"""The man pages tell of each option and each variable, and of none that is not there; mandoc finds nothing to warn of."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

import command_help

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))

from testbed import option_parser  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs" / "man"
BUILD = None  # Set in main.
ITEM = re.compile(r"^\.It (.*)$", re.MULTILINE)
# A variable's name as a whole string, or as the argument of a function that reads it.
NAME_IN_SOURCE = re.compile(r'"(VERBATIMD|VERBATIM_[A-Z_]+)"')


def page(name):
    return (PAGES / name).read_text(encoding="utf-8")


def flags(text):
    """Returns the options that have an item: `.It Fl h , Fl -help` has two."""
    return {f"-{name}" for item in ITEM.findall(text) for name in re.findall(r"\bFl (-?[a-z][a-z-]*)", item)}


def variables(text):
    return {name for item in ITEM.findall(text) for name in re.findall(r"\bEv (VERBATIM\w*)", item)}


def section(text, heading):
    """Returns the text from a heading to the next."""
    return re.split(r"^\.S[hs] ", text.split(heading, 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def variables_of_sources():
    """Returns the variables in what is built into libraries and programs; `doctor` has its own table."""
    names = set()
    for path in (ROOT / "src").rglob("*.cpp"):
        if not path.stem.endswith("_test") and "doctor" not in path.parts:
            names |= set(NAME_IN_SOURCE.findall(path.read_text(encoding="utf-8")))
    return names


class Commands(unittest.TestCase):
    def test_each_option_is_told_and_each_that_is_told_is_there(self):
        text = page("verbatim.1")
        node_options = flags(section(text, ".Ss Node options"))
        self.assertTrue(command_help.COMMON <= flags(section(text, ".Sh DESCRIPTION")))
        for command, options in command_help.options(BUILD).items():
            if not command:
                self.assertEqual(options, command_help.COMMON)
                continue
            told = section(text, f".Ss verbatim {command}\n")
            own = flags(told)
            if "Takes the\n.Sx Node options" in told:
                own |= node_options
            self.assertEqual(own, options - command_help.COMMON, f"verbatim {command}")

    def test_each_command_that_is_told_is_there(self):
        told = re.findall(r"^\.Ss verbatim (.+)$", page("verbatim.1"), re.MULTILINE)
        self.assertEqual(told, command_help.commands(BUILD))
        in_synopsis = re.findall(r"^\.Cm (.+)$", section(page("verbatim.1"), ".Sh SYNOPSIS"), re.MULTILINE)
        self.assertEqual(in_synopsis, [name for name in told if name not in ("fabric", "cluster", "target", "nfs", "nic", "ipoib", "lnet", "rds")])

    def test_options_of_the_agent(self):
        self.assertEqual(flags(page("verbatimd.8")), command_help.agent_options(BUILD, "verbatimd"))
        for kind in ("target", "nfs-serve", "nfs-client", "ipoib", "lnet", "rds", "initiator"):
            told = section(page("verbatim-ulpd.8"), f".Ss verbatim-ulpd {kind}")
            self.assertEqual(flags(told), command_help.agent_options(BUILD, "verbatim-ulpd", kind))
        self.assertEqual(flags(page("verbatim-fabricd.8")), command_help.agent_options(BUILD, "verbatim-fabricd"))
        self.assertEqual(flags(page("verbatim-nicd.8")), command_help.agent_options(BUILD, "verbatim-nicd"))


class Variables(unittest.TestCase):
    def test_each_that_is_read_is_told_and_each_that_is_told_is_read(self):
        self.assertEqual(variables(page("verbatim.7")), variables_of_sources())

    def test_the_guide_tells_of_the_same(self):
        text = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")
        self.assertEqual(set(re.findall(r"^\| `(VERBATIM\w*)` \|", text, re.MULTILINE)), variables_of_sources())

    def test_the_doctor_knows_the_same(self):
        text = (ROOT / "src" / "cli" / "doctor" / "variables.cpp").read_text(encoding="utf-8")
        self.assertEqual(set(re.findall(r'\{"(VERBATIM\w*)",', text)), variables_of_sources())


class Form(unittest.TestCase):
    def test_no_warning(self):
        pages = sorted(PAGES.glob("*.[1-8]"))
        self.assertEqual([path.name for path in pages], ["verbatim-fabricd.8", "verbatim-nicd.8", "verbatim-ulpd.8",
                                                        "verbatim.1", "verbatim.7", "verbatimd.8"])
        if not shutil.which("mandoc"):
            self.skipTest("mandoc is not installed")
        done = subprocess.run(["mandoc", "-T", "lint", "-W", "warning", *pages], text=True, check=False,
                              capture_output=True)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    def test_plain_items_are_printed_whole(self):
        """Words such as No, In and At are macros where an item begins."""
        if not shutil.which("mandoc"):
            self.skipTest("mandoc is not installed")
        for path in PAGES.glob("*.[1-8]"):
            shown = subprocess.run(["mandoc", "-T", "ascii", path], text=True, check=True, capture_output=True).stdout
            shown = re.sub(".\x08", "", shown)
            for item in ITEM.findall(path.read_text(encoding="utf-8")):
                if item.split()[0] not in ("Fl", "Ev", "Cm", "Ar", "Pa", "Ql", "Xr"):
                    self.assertIn(item.replace("\\&", ""), shown)


def main():
    global BUILD
    BUILD = os.path.abspath(option_parser(__doc__).parse_args().build)
    result = unittest.main(argv=sys.argv[:1], exit=False, verbosity=2).result
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
