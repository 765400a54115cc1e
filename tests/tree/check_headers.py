#!/usr/bin/env python3
"""Checks that each header of src/ and include/ compiles by itself, without warnings. A header that some source
includes before all else is shown to stand alone by the build."""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys

FLAGS = ("-std=c++23", "-fsyntax-only", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-Werror", "-D_GNU_SOURCE",
         '-DVERBATIM_VERSION="0"', "-x", "c++")


def compile_alone(root, compiler, header):
    """Returns the compiler's output; empty if the header compiles alone."""
    command = [compiler, *FLAGS, f"-I{root}/src", f"-I{root}/include", f"-I{root}", "-"]
    done = subprocess.run(command, input=f'#include "{header}"\n', text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return "" if done.returncode == 0 else f"{header} does not stand alone:\n{done.stdout}"


# Folders whose headers include those of a library that need not be installed: DPDK's, for drivers.
NEED_OTHERS = (("offload", "driver"),)
FIRST_INCLUDE = re.compile(r'^#include ["<]([^">]+)[">]', re.MULTILINE)


def shown_by_the_build(root):
    """Returns the headers that sources include first, which the build checks."""
    sources = [path for folder in ("src", "sim") for path in (root / folder).rglob("*.cpp")]
    firsts = (FIRST_INCLUDE.search(path.read_text(encoding="utf-8")) for path in sources)
    return {first[1] for first in firsts if first}


def headers_of(root):
    shown = shown_by_the_build(root)
    for folder in ("src", "include", "sim"):
        for path in sorted((root / folder).rglob("*.h")):
            header = path.relative_to(root / folder if folder != "sim" else root)
            if str(header) not in shown and header.parts[:2] not in NEED_OTHERS:
                yield header


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=pathlib.Path, help="root of the source tree")
    parser.add_argument("--compiler", default="g++")
    options = parser.parse_args()
    headers = list(headers_of(options.root))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        faults = [fault for fault in pool.map(
            lambda header: compile_alone(options.root, options.compiler, header), headers) if fault]
    print("\n".join(faults) or f"each header stands alone ({len(headers)} were compiled, the build shows the others)")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
