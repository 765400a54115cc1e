#!/usr/bin/env python3
"""The tests of pages can fail: pages with one fault each, and what is said of it."""

import pathlib
import tempfile
import unittest

from page import PageError, blocks_of
from run_page import Run, environment_of


def run(text):
    """Runs the page in new folders."""
    with tempfile.TemporaryDirectory() as name:
        root, home = pathlib.Path(name, "root"), pathlib.Path(name, "home")
        for folder in (root, home):
            folder.mkdir()
        (root / "folder").mkdir()
        (root / "folder/original.cpp").write_text("int a;\n  int b;\n  int c;\n", encoding="utf-8")
        page = Run(root, home, environment_of(home, pathlib.Path("/nonexistent")))
        try:
            page.page(text)
        finally:
            page.close()


def console(*lines):
    return "\n".join(["```console", *lines, "```", ""])


class Pages(unittest.TestCase):
    def fails(self, text, words):
        with self.assertRaises(PageError) as caught:
            run(text)
        self.assertIn(words, str(caught.exception))

    def test_output_is_compared(self):
        run(console("$ echo one; echo; echo two", "one", "two"))
        run(console("$ echo one 2 three", "one ... three"))
        run(console("$ seq 9", "1", "...", "9"))
        run(console("$ seq 9"))
        self.fails(console("$ seq 9", "1", "...", "8"), "printed something else")
        self.fails(console("$ echo onetwo", "one"), "printed something else")
        self.fails(console("$ true", "one"), "printed something else")

    def test_a_failure_is_one_unless_the_page_shows_the_status(self):
        self.fails(console("$ false"), "ended with status 1")
        self.fails(console("$ no_such_command"), "ended with status 127")
        self.fails(console("$ false", "$ true"), "ended with status 1")
        run(console("$ sh -c 'exit 3'", "$ echo $?", "3"))
        self.fails(console("$ sh -c 'exit 3'", "$ echo $?", "0"), "printed something else")

    def test_a_terminal_keeps_its_folder_and_variables(self):
        run(console("$ mkdir a && cd a", "$ export B=c") + console("$ echo $(basename $PWD) $B", "a c"))

    def test_two_terminals(self):
        run(console("one$ echo ready; while [ ! -e go ]; do sleep 0.01; done; echo went", "ready", "went")
            + console("two$ touch go"))
        self.fails(console("one$ echo ready; while [ ! -e go ]; do sleep 0.01; done; echo went", "ready", "came")
                   + console("two$ touch go"), "printed something else")

    def test_files(self):
        run("`a b` and `new/file.txt`:\n```cpp\nint a;\n```\n" + console("$ cat new/file.txt", "int a;"))
        run("From `folder/original.cpp`:\n```cpp\nint b;\nint c;\n```\n")
        self.fails("From `folder/original.cpp`:\n```cpp\nint a;\nint c;\n```\n", "are not lines of folder/original.cpp")
        self.fails("No name.\n```cpp\nint a;\n```\n", "does not end with")

    def test_form(self):
        self.fails("```console\n$ true\n", "does not end")
        self.fails(console("no command"), "begins with a command")
        self.fails("```{.cpp}\n```\n", "a fence is")

    def test_what_is_not_run_has_a_reason(self):
        run("<!-- not run: no network -->\n" + console("$ false"))
        self.assertEqual(blocks_of("<!-- not run: no network -->\n" + console("$ false"))[0].reason, "no network")
        self.fails("<!-- not run: -->\n" + console("$ false"), "ended with status 1")


if __name__ == "__main__":
    unittest.main()
