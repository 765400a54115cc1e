#!/usr/bin/env python3
"""Runs .ci/run and test.sh in a tree of one fake build, whose tests pass, fail, or fail by chance."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOOD, BAD = "exit 0", "echo it is broken; exit 1"
# Fails the first time.
FLAKY = "test -e seen-$0 || { touch seen-$0; echo it is the moon; exit 1; }"
PROGRAM = "#!/bin/sh\n"


class Tree:
    """A tree with the two scripts. Nothing is built or installed in it."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        for path in (".ci/run", "test.sh", "dev/form.sh", "dev/minutes.sh"):
            (self.folder / path).parent.mkdir(exist_ok=True)
            shutil.copy(ROOT / path, self.folder / path)
        for path in ("setup.sh", "programs/cmake"):
            self.write(path, PROGRAM)
        self.write("build/fuzzing/bin/fuzz_nothing", PROGRAM + "echo Done 1 runs\n")
        for words in (["init"], ["-c", "user.name=a", "-c", "user.email=a@a", "commit", "--allow-empty", "-m", "a"]):
            subprocess.run(["git", "-c", f"safe.directory={folder}", *words], cwd=folder, check=True,
                           capture_output=True)

    def write(self, path, text):
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        file.chmod(0o755)

    def write_tests(self, build, tests):
        """`tests`: name to what a shell runs."""
        self.write(f"{build}/CTestTestfile.cmake",
                   "".join(f"add_test({name} sh -c [=[{script}]=] {name})\n"
                           f"set_tests_properties({name} PROPERTIES LABELS unit)\n" for name, script in tests.items()))

    def run(self, program, **variables):
        environment = os.environ | {"PATH": f"{self.folder}/programs:{os.environ['PATH']}"}
        for name in ("VERBATIM_RERUN_MAX", "VERBATIM_BUILD_UNTIL"):  # This test may run in the gate itself.
            environment.pop(name, None)
        environment |= variables
        done = subprocess.run([f"./{program}"], cwd=self.folder, env=environment, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
        return done.returncode, done.stdout


class Gate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = Tree(folder.name)
        self.tree.write_tests("build/asan", {"unit": GOOD})

    def gate(self, tests, program=".ci/run"):
        self.tree.write_tests("build", tests)
        return self.tree.run(program)

    def closing_lines(self, output):
        return output.split("ci: minutes by stage\n")[1]

    def test_one_that_fails_once_is_named_and_its_log_kept(self):
        status, output = self.gate({"good": GOOD, "flaky": FLAKY, "flaky2": FLAKY})
        self.assertEqual(status, 0, output)
        closing = self.closing_lines(output)
        self.assertRegex(closing, r"4 passed, 0 failed\nci: passed\n$")
        logs = re.findall(r"^(flaky2?): (build/chance_failures/.*)$", closing, re.MULTILINE)
        self.assertEqual([name for name, log in logs], ["flaky", "flaky2"])
        self.assertIn("it is the moon", (self.tree.folder / logs[0][1]).read_text(encoding="utf-8"))

    def test_unit_tests_under_sanitizers_are_run_again_too(self):
        self.tree.write_tests("build/asan", {"unit": GOOD, "flaky": FLAKY})
        status, output = self.gate({"good": GOOD})
        self.assertEqual(status, 0, output)
        self.assertRegex(self.closing_lines(output), "flaky: build/asan/chance_failures/.*\n\n3 passed, 0 failed\n")

    def test_what_fails_twice_fails_the_gate(self):
        status, output = self.gate({"good": GOOD, "flaky": FLAKY, "broken": BAD})
        self.assertEqual(status, 1, output)
        closing = self.closing_lines(output)
        self.assertIn("3 passed, 1 failed", closing)
        self.assertRegex(closing, r"(?s)flaky: build.*what failed.*broken.*it is broken")

    def test_more_than_five_are_no_chance(self):
        status, output = self.gate({f"flaky{number}": FLAKY for number in range(6)})
        self.assertEqual(status, 1, output)
        self.assertIn("1 passed, 6 failed", output)

    def test_one_that_failed_by_chance_before_fails_the_gate(self):
        self.tree.write("tests/chance_failures.txt", "# Known.\nflaky\n")
        status, output = self.gate({"good": GOOD, "flaky": FLAKY, "flaky2": FLAKY})
        self.assertEqual(status, 1, output)
        closing = self.closing_lines(output)
        self.assertIn("flaky has failed by chance before", closing)
        self.assertIn("3 passed, 1 failed", closing)

    def test_the_suite_alone_is_strict(self):
        status, output = self.gate({"good": GOOD, "flaky": FLAKY}, "test.sh")
        self.assertEqual(status, 1, output)
        self.assertRegex(output, r"(?s)what failed.*it is the moon.*\n2 passed, 1 failed\n$")

    def test_what_is_not_built_in_time_is_named(self):
        self.tree.write("programs/cmake", PROGRAM + 'case "$*" in *--build*) exec sleep 100;; esac\n')
        self.tree.write_tests("build", {"good": GOOD})
        status, output = self.tree.run("test.sh", VERBATIM_BUILD_UNTIL="1")
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"test: no time\nthe asan preset was not built in time.*\n\n1 passed, 0 failed\n$")

    def test_no_test_at_all_is_a_failure(self):
        status, output = self.gate({})
        self.assertEqual(status, 1, output)
        self.assertIn("1 passed, 1 failed", output)

    def test_minutes_of_each_stage_are_told(self):
        _, output = self.gate({"good": GOOD})
        stages = re.findall(r"^ +[0-9]+\.[0-9] min  (.*)$", self.closing_lines(output), re.MULTILINE)
        self.assertEqual(stages, ["building what it needs", "the suite", "building the asan preset",
                                  "unit tests under address and undefined sanitizers", "fuzz targets",
                                  "installing what checks form", "form: clang-format, shellcheck", "clang-tidy"])


if __name__ == "__main__":
    unittest.main()
