#!/usr/bin/env python3
"""Checks who includes whom in src/, and whose namespaces they use, against the table in includes.py; that a folder
holds at most 25 files; and that no unit (header and source) includes itself by way of others."""

import argparse
import collections
import pathlib
import re
import sys

import includes
from includes import C_HEADERS, MAY_INCLUDE, TESTS_MAY_ALSO_INCLUDE

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
C_INCLUDE = re.compile(r"^\s*#\s*include\s+<([^>]+)>", re.MULTILINE)
COMMENT_OR_TEXT = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"|^\s*#[^\n]*', re.MULTILINE)
TOP_FOLDERS = ("sim", "tests", "bench", "fuzz", "examples")
FILES_MAX = 25
# Folders of src/ with a namespace of the same name, so that a use can be seen.
NAMESPACES = ("observe", "wire", "region", "transport", "cm", "arena", "adapter", "agent", "link", "config", "connect", "mad",
              "fabric", "service")
USE = re.compile(rf"(?<![\w:])(?:verbatim::)?({'|'.join(NAMESPACES)})::")


def room_of(path):
    """Returns the room of a path below src/: the longest matching row; None if there is none."""
    parts = path.split("/")[:-1]
    return next((room for count in range(len(parts), 0, -1) if (room := "/".join(parts[:count])) in MAY_INCLUDE), None)


def is_below(path, folder):
    return path == folder or path.startswith(f"{folder}/")


def is_allowed(room, included, is_test):
    """Returns true if a file of `room` may include the path `included`."""
    if room_of(included) == room:
        return True
    allowed = MAY_INCLUDE[room] + (TESTS_MAY_ALSO_INCLUDE if is_test else ())
    if included.split("/")[0] in ("verbatim", "infinity") and "include" in allowed:
        return True
    return any(is_below(included, folder) for folder in allowed)


def may_use(room, folder, is_test):
    """Returns true if a file of `room` may name the namespace of `folder`."""
    return is_below(room, folder) or any(is_below(allowed, folder) for allowed in MAY_INCLUDE[room]) or (
        is_test and folder in TESTS_MAY_ALSO_INCLUDE)


def uses_of(path, source):
    """Returns (room, other room, sentence) for each include and each namespace that the table does not allow."""
    relative = path.relative_to(source)
    room = room_of(str(relative))
    if room is None:
        yield None, None, f"src/{relative}: the folder src/{relative.parent} has no row in tests/tree/includes.py"
        return
    is_test = path.stem.endswith("_test")
    text = path.read_text(encoding="utf-8")
    allowed = ", ".join(MAY_INCLUDE[room]) or "nothing"
    for included in INCLUDE.findall(text):
        if "/" not in included:
            yield None, None, f'src/{relative}: #include "{included}": write the path from src/, as in "{room}/{included}"'
        elif not is_allowed(room, included, is_test):
            yield (room, room_of(included) or included.split("/")[0],
                   f'src/{relative}: #include "{included}": src/{room} may include {allowed} (and itself)')
        elif not (source / included).exists() and included.split("/")[0] not in (*TOP_FOLDERS, "verbatim", "infinity"):
            yield None, None, f'src/{relative}: #include "{included}": there is no such file in src/'
    for header in C_INCLUDE.findall(text) if is_below(room, "ulp") else ():
        folders = next((folders for start, folders in C_HEADERS.items() if header.startswith(start)), (room,))
        if not any(is_below(room, folder) for folder in folders):
            yield None, None, f"src/{relative}: #include <{header}>: below ulp/ only {', '.join(folders)} may include it"
    for namespace in sorted(set(USE.findall(COMMENT_OR_TEXT.sub("", text)))):
        folder = namespace
        if not may_use(room, folder, is_test):
            yield (room, f"{folder}::", f"src/{relative}: uses {namespace}::, and src/{room} may include {allowed}")


def units_of(source):
    """Returns unit (path without its ending) to the units that its files include."""
    units = collections.defaultdict(set)
    for path in source.rglob("*"):
        if path.suffix in (".h", ".cpp") and not path.stem.endswith("_test"):
            unit = str(path.relative_to(source).with_suffix(""))
            units[unit] |= {name.rsplit(".", 1)[0] for name in INCLUDE.findall(path.read_text(encoding="utf-8"))} - {unit}
    return units


def knots_of(source):
    """Returns sets of units that include each other, directly or through others (Tarjan)."""
    units, order, low, stack, knots = units_of(source), {}, {}, [], []

    def visit(unit):
        order[unit] = low[unit] = len(order)
        stack.append(unit)
        for other in units.get(unit, ()):
            if other not in order:
                visit(other)
            if other in stack:
                low[unit] = min(low[unit], low[other])
        if low[unit] == order[unit]:
            at = stack.index(unit)
            if len(stack) - at > 1:
                knots.append(tuple(sorted(stack[at:])))
            del stack[at:]

    sys.setrecursionlimit(10000)
    for unit in list(units):
        if unit not in order:
            visit(unit)
    return sorted(knots)


def against_not_yet(found, not_yet):
    """Returns sentences for differences between `found` ({(room, other): [sentence]}) and `not_yet`."""
    for pair in sorted(found.keys() | not_yet.keys()):
        count, expected = len(found.get(pair, ())), not_yet.get(pair, 0)
        if count > expected:
            yield from found[pair]
        elif count < expected:
            yield f"tests/tree/includes.py: NOT_YET says {expected} for {pair}, and there are {count}: lower it"


def check(source, not_yet=None, knots=()):
    faults, found = [], collections.defaultdict(list)
    for path in sorted(source.rglob("*")):
        if path.is_dir() and len(files := [child for child in path.iterdir() if child.is_file()]) > FILES_MAX:
            faults.append(f"src/{path.relative_to(source)} has {len(files)} files: a folder holds at most {FILES_MAX}")
        if path.suffix in (".h", ".cpp", ".c"):
            for room, other, sentence in uses_of(path, source):
                if room is None:
                    faults.append(sentence)
                else:
                    found[room, other].append(sentence)
    faults += against_not_yet(found, not_yet or {})
    there = knots_of(source)
    faults += [f"these units include each other: {', '.join(knot)}" for knot in there if knot not in knots]
    faults += [f"tests/tree/includes.py: this knot is gone: {knot}" for knot in knots if knot not in there]
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=pathlib.Path, help="root of the source tree")
    faults = check(parser.parse_args().root / "src", includes.NOT_YET, includes.KNOTS)
    print("\n".join(faults) or "every include is allowed by the table")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
