#!/usr/bin/env python3
"""Compares what the built library exports with the list that it was made from."""
import argparse
import os
import re
import subprocess
import sys


def wanted(path):
    """Returns the list's symbols as name@version or name@@version."""
    lines = (line.split() for line in open(path) if line.strip() and not line.startswith("#"))
    return {line[0]: line[1] for line in lines}


def exported(library):
    """Returns those of the library: symbol to type (FUNC, OBJECT)."""
    table = subprocess.run(["readelf", "--wide", "--dyn-syms", library], check=True,
                           capture_output=True, text=True).stdout
    symbols = {}
    for line in table.splitlines():
        fields = line.split()
        # Number, value, size, type, binding, visibility, section, name.
        if len(fields) < 8 or not fields[0].endswith(":") or fields[6] in ("UND", "ABS", "Ndx"):
            continue
        if fields[4] in ("GLOBAL", "WEAK", "UNIQUE"):
            symbols[fields[7]] = fields[3]
    return symbols


def dynamic_section(library):
    return subprocess.run(["readelf", "--wide", "--dynamic", library], check=True,
                          capture_output=True, text=True).stdout


def problems(library, exports):
    want, have = wanted(exports), exported(library)
    for symbol in sorted(want.keys() - have.keys()):
        yield f"missing: {symbol}"
    for symbol in sorted(have.keys() - want.keys()):
        yield f"not in the list: {symbol}"
    for symbol in sorted(want.keys() & have.keys()):
        name = symbol.split("@")[0]
        data = any(kind == "flag" for other, kind in want.items() if other.split("@")[0] == name)
        if (have[symbol] == "OBJECT") != data:
            yield f"{symbol} is a {have[symbol]}"
    dynamic = dynamic_section(library)
    soname = ".".join(os.path.basename(library).split(".")[:3])
    for needed in (f"Library soname: [{soname}]", "[$ORIGIN]", "BIND_NOW", "NODELETE"):
        if needed not in dynamic:
            yield f"the dynamic section lacks {needed}"
    sanitized = re.search(r"NEEDED.*lib(a|t|ub)san", dynamic)
    if re.search(r"NEEDED.*libstdc\+\+", dynamic) and not sanitized:
        yield "it needs the C++ library of the system"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--exports", required=True)
    options = parser.parse_args()
    found = list(problems(options.library, options.exports))
    print("\n".join(found) or f"{len(wanted(options.exports))} symbols as listed")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
