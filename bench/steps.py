#!/usr/bin/env python3
"""Counts the instructions of one request, and says in which functions they are.

Noise of the machine does not show in it. What the compiler has made part of another function counts for that,
with --inlined for itself."""

import argparse
import collections
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "programs"))
from testbed import Testbed, option_parser  # noqa: E402  (the path has to be set first)


def parts_of(output):
    """Returns (title, [(file, offset)]) for each step that bench_steps prints."""
    parts = []
    for line in output.splitlines():
        if line.startswith("## "):
            parts.append((line[3:], []))
        elif parts and len(words := line.split()) == 2:
            parts[-1][1].append((words[0], int(words[1], 16)))
    return parts


def names_of(places, inlined):
    """Maps each location to its function: the innermost of the inlined ones, or the outermost."""
    names = {}
    for file in {file for file, _ in places}:
        if not os.path.exists(file):
            continue
        offsets = sorted({offset for at, offset in places if at == file})
        found = subprocess.run(["addr2line", "-f", "-i", "-C", "-a", "-e", file, *map(hex, offsets)], check=True,
                               capture_output=True, text=True).stdout
        for block in found.split("0x")[1:]:
            lines = block.splitlines()
            functions = [name.split("(")[0] for name in lines[1::2]]
            names[file, int(lines[0], 16)] = functions[0 if inlined else -1]
    return names


def print_functions(parts, inlined):
    """Prints the functions with most instructions of each part."""
    for title, places in parts:
        names = names_of(places, inlined)
        counts = collections.Counter(names.get(place, os.path.basename(place[0])) for place in places)
        print(f"{title}")
        for name, count in counts.most_common(12):
            print(f"  {count:5}  {name}")


def main():
    parser = option_parser(__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--inlined", action="store_true", help="name the innermost function")
    parser.add_argument("kind", choices=["write", "read", "send"])
    parser.add_argument("bytes", type=int, nargs="?", default=8)
    parser.add_argument("how", choices=["inline", "registered"], nargs="?", default="registered")
    options = parser.parse_args()
    with Testbed(options) as testbed:
        program = testbed.start("a", [f"{testbed.build}/bin/bench_steps", options.kind, str(options.bytes), options.how])
        program.expect_success(60)
        parts = parts_of(program.output())
    print_functions(parts, options.inlined)


if __name__ == "__main__":
    main()
