#!/usr/bin/env python3
"""Checks that each test that SECURITY.md names is there."""

import argparse
import pathlib
import re
import sys

NAME = re.compile(r"`([a-z_]+\.[A-Za-z0-9_.*]+)`")
# Rooms whose test programs are named room_folder.
ROOMS = ("fabric", "offload", "transport", "ulp")


def folder_of(root, group):
    """Where the tests of a program are: `ulp_sdp` is that of src/ulp/sdp."""
    room, _, name = group.partition("_")
    if group == "sim":
        return root / "sim"
    return root / "src" / (f"{room}/{name}" if room in ROOMS and name else group)


def is_test(root, name):
    group, rest = name.split(".", 1)
    if group in ("attacks", "programs", "offload"):
        folder = root / "tests" / group
        return (folder / f"test_{rest}.py").exists() or re.search(
            rf"\b{rest}\b", (folder / "CMakeLists.txt").read_text(encoding="utf-8")) is not None
    suite, _, test = rest.partition(".")
    pattern = re.compile(rf"TEST(_F|_P)?\({'.*' if suite == '*' else suite}, "
                         rf"{'.*' if test in ('*', '') else test}\)")
    tests = folder_of(root, group).rglob("*_test.cpp")
    return any(pattern.search(path.read_text(encoding="utf-8")) for path in tests)


def promises_of(text):
    """Returns the items of the lists between the first heading and the section of what is not promised."""
    lists = text.split("\n## ", 1)[1].split("\n## What is inherent", 1)[0]
    return re.findall(r"^- (?:.|\n(?=  ))+", lists, flags=re.MULTILINE)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=pathlib.Path, help="root of the source tree")
    root = parser.parse_args().root
    text = (root / "SECURITY.md").read_text(encoding="utf-8")
    names = NAME.findall(text)
    faults = [f"SECURITY.md names {name}, and there is no such test" for name in names if not is_test(root, name)]
    faults += [f"SECURITY.md: no test for: {promise}" for promise in promises_of(text) if not NAME.search(promise)]
    if len(promises_of(text)) < 15:
        faults.append("SECURITY.md: its promises are not found")
    print("\n".join(faults) or f"all {len(names)} tests are there")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
