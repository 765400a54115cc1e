#!/usr/bin/env python3
"""Checks that each test that SECURITY.md names is there."""

import argparse
import pathlib
import re
import sys

NAME = re.compile(r"`([a-z_]+\.[A-Za-z0-9_.*]+)`")
# Test programs of src/ and sim/, and the folders of their tests.
FOLDERS = {"transport_ib": "src/transport/ib", "transport_iwarp": "src/transport/iwarp", "sim": "sim",
           "fabric_data": "src/fabric/data", "fabric_keeper": "src/fabric/keeper",
           "fabric_protocol": "src/fabric/protocol", "fabric_trunk": "src/fabric/trunk", "ulp_sdp": "src/ulp/sdp",
           "ulp_ipoib": "src/ulp/ipoib",
           "offload_card": "src/offload/card", "offload_switch": "src/offload/switch"}


def is_test(root, name):
    group, rest = name.split(".", 1)
    if group in ("attacks", "programs"):
        folder = root / "tests" / group
        return (folder / f"test_{rest}.py").exists() or re.search(
            rf"\b{rest}\b", (folder / "CMakeLists.txt").read_text(encoding="utf-8")) is not None
    suite, _, test = rest.partition(".")
    pattern = re.compile(rf"TEST(_F|_P)?\({'.*' if suite == '*' else suite}, "
                         rf"{'.*' if test in ('*', '') else test}\)")
    folder = root / FOLDERS.get(group, f"src/{group}")
    return any(pattern.search(path.read_text(encoding="utf-8")) for path in folder.rglob("*_test.cpp"))


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
