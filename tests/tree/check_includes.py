#!/usr/bin/env python3
"""Checks who includes whom in src/ against the table in includes.py."""

import argparse
import pathlib
import re
import sys

from includes import MAY_INCLUDE, TESTS_MAY_ALSO_INCLUDE

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
TOP_FOLDERS = ("sim", "tests", "bench", "fuzz", "examples")


def is_allowed(owner, included, is_test):
    """True where a file of folder `owner` may include the path `included`."""
    folder = included.split("/")[0]
    if folder == owner:
        return True
    allowed = MAY_INCLUDE[owner] + (TESTS_MAY_ALSO_INCLUDE if is_test else ())
    return folder in allowed or included in allowed or (folder == "verbatim" and "include" in allowed)


def faults_of(path, source):
    """Sentences on the includes of one file that the table does not allow."""
    relative = path.relative_to(source)
    owner = relative.parts[0]
    if owner not in MAY_INCLUDE:
        yield f"src/{relative}: the folder src/{owner} has no row in tests/tree/includes.py"
        return
    is_test = path.stem.endswith("_test")
    for included in INCLUDE.findall(path.read_text(encoding="utf-8")):
        if "/" not in included:
            yield (f'src/{relative}: #include "{included}": write the path from src/, '
                   f'as in "{owner}/{included}"')
        elif not is_allowed(owner, included, is_test):
            allowed = ", ".join(MAY_INCLUDE[owner]) or "nothing"
            yield (f'src/{relative}: #include "{included}": src/{owner} may include '
                   f"{allowed} (and itself)")
        elif not (source / included).exists() and included.split("/")[0] not in (
                *TOP_FOLDERS, "verbatim"):
            yield f'src/{relative}: #include "{included}": there is no such file in src/'


def check(source):
    faults = []
    for path in sorted(source.rglob("*")):
        if path.suffix in (".h", ".cpp", ".c"):
            faults += faults_of(path, source)
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=pathlib.Path, help="root of the source tree")
    faults = check(parser.parse_args().root / "src")
    print("\n".join(faults) or "every include is allowed by the table")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
