#!/usr/bin/env python3
"""Checks the form of the examples: short, with a comment that says how to run them, a usage, a row in the README;
and that those in C compile alone, by the command that they name."""

import argparse
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

LINES_MAX = 149
STRICT = ("-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror")


def faults_of_text(path, readme):
    """Returns what a reader would miss in the file."""
    text = path.read_text(encoding="utf-8")
    lines = len(text.splitlines())
    if lines > LINES_MAX:
        yield f"has {lines} lines: at most {LINES_MAX}"
    if not re.match(rf"(/\*|//) {path.stem}: ", text):
        yield "does not begin with a comment that says what it shows"
    if not re.search(rf"verbatim run --node .*/{path.stem}\b", text):
        yield "does not say how to run it"
    if f"`{path.parent.name}/{path.name}`" not in readme:
        yield "has no row in README.md"


def faults_of_usage(program):
    """Checks that the example prints its usage quickly and without a device."""
    done = subprocess.run([program, "--help"], check=False, capture_output=True, text=True, timeout=10)
    if f"usage: {program.name}" not in done.stdout + done.stderr:
        yield f"--help says {done.stdout + done.stderr!r}"


def faults_of_command(path, compiler):
    """Runs the compile command in the file, with another compiler and output."""
    command = re.search(r"^ \*   cc (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    if not command:
        yield "does not say how to compile it"
        return
    with tempfile.TemporaryDirectory() as folder:
        for options in ((), STRICT):
            words = [compiler, *options, *shlex.split(command[1])]
            words[words.index("-o") + 1] = f"{folder}/program"
            done = subprocess.run(words, cwd=path.parent, check=False, capture_output=True, text=True, timeout=60)
            if done.returncode != 0:
                yield f"{' '.join(words)}: {done.stderr}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sources", type=pathlib.Path, help="examples/")
    parser.add_argument("programs", type=pathlib.Path, help="where they were built")
    parser.add_argument("--compiler", default="cc")
    options = parser.parse_args()
    readme = (options.sources / "README.md").read_text(encoding="utf-8")
    files = sorted([*options.sources.glob("c/*.c"), *options.sources.glob("cpp/*.cpp")])
    faults = [f"{path.name} {fault}" for path in files
              for fault in (*faults_of_text(path, readme), *faults_of_usage(options.programs / path.stem))]
    faults += [f"{path.name} {fault}" for path in files if path.suffix == ".c"
               for fault in faults_of_command(path, options.compiler)]
    print("\n".join(faults) or f"{len(files)} examples are in shape")
    return 1 if faults or not files else 0


if __name__ == "__main__":
    sys.exit(main())
