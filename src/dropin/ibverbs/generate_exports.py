#!/usr/bin/env python3
"""Makes a drop-in's version script, and its functions that are not implemented, from the list.

    generate_exports.py exports.txt library.map exports.cpp
"""
import sys

# The body of a function that is not implemented, by the list's second column.
FUNCTIONS = {
    "errno": ("int", "return verbatim::dropin::refuse_as_errno({name});"),
    "minus_one": ("int", "return verbatim::dropin::refuse_as_minus_one({name});"),
    "null": ("void*", "return verbatim::dropin::refuse_as_null({name});"),
    "nothing": ("void", "verbatim::dropin::refuse_without_value({name});"),
    "ignored": ("void", ""),
}


def read(path):
    """Returns rows of name, version, default or not, and kind."""
    rows = []
    for line in open(path):
        if line.startswith("#") or not line.strip():
            continue
        symbol, kind = line.split()
        name, version = symbol.replace("@@", "@").split("@")
        rows.append((name, version, "@@" in symbol, kind))
    return rows


def version_key(version):
    private = "PRIVATE" in version
    return private, [int(part) for part in version.split("_")[-1].split(".")]


def version_script(rows):
    """Returns the version script. Public nodes inherit from the one before. `local: *` hides everything that is not
    in the list; it is in a node whose names are all default ones, because it would hide others there."""
    text, before = "", ""
    versions = sorted({row[1] for row in rows}, key=version_key)
    hiding = next(v for v in versions if all(default for _, w, default, _ in rows if w == v))
    for version in versions:
        names = sorted(name for name, v, default, _ in rows if v == version and default)
        text += version + " {\n"
        if names:
            text += "  global:\n" + "".join(f"    {name};\n" for name in names)
        if version == hiding:
            text += "  local:\n    *;\n"
        private = "PRIVATE" in version
        text += "}" + (f" {before}" if before and not private else "") + ";\n"
        before = before if private else version
    return text


def function(name, version, default, kind):
    returned, body = FUNCTIONS[kind]
    # An entry that is not the default version gets a C name; the directive exports it under the
    # public name.
    symbol = name if default else f"{name}__{version.replace('.', '_')}"
    directive = "" if default else f'asm(".symver {symbol}, {name}@{version}");\n'
    label = name if default else f"{name}@{version}"
    quoted = '"' + label + '"'
    return f"{directive}{returned} {symbol}() {{ {body.format(name=quoted)} }}\n"


def alias(name, version):
    """Returns a jump to the function of the default version."""
    symbol = f"{name}__{version.replace('.', '_')}"
    return (
        f'asm(".pushsection .text\\n.globl {symbol}\\n.type {symbol}, @function\\n{symbol}:\\n"\n'
        f'    "endbr64\\njmp {name}@PLT\\n.size {symbol}, . - {symbol}\\n.popsection\\n"\n'
        f'    ".symver {symbol}, {name}@{version}");\n'
    )


def flag(name, versions):
    """Returns one byte with a label for each version; `versions` tells which is the default one. No label has the
    bare name: the linker would drop it as a duplicate of the others."""
    text = f'asm(".pushsection .bss.{name}, \\"aw\\", @nobits\\n"\n'
    labels = [(f"{name}__{version.replace('.', '_')}", version) for version in versions]
    for label, _ in labels:
        text += f'    ".globl {label}\\n.type {label}, @object\\n.size {label}, 1\\n{label}:\\n"\n'
    text += '    ".zero 1\\n.popsection\\n"\n'
    for label, version in labels:
        mark = "@@" if versions[version] else "@"
        text += f'    ".symver {label}, {name}{mark}{version}\\n"\n'
    return text + '    "");\n'


def source(rows):
    text = "// Made from exports.txt by generate_exports.py.\n"
    text += '#include "dropin/ibverbs/not_implemented.h"\n\n'
    text += "#pragma GCC visibility push(default)\n"
    text += '#pragma GCC diagnostic ignored "-Wmissing-declarations"\n'
    text += 'extern "C" {\n'
    flags = {name for name, _, default, kind in rows if kind == "flag" and default}
    for name, version, default, kind in rows:
        if kind in FUNCTIONS:
            text += function(name, version, default, kind)
        elif kind == "same" and name not in flags:
            text += alias(name, version)
    for name in sorted(flags):
        text += flag(name, {v: default for n, v, default, _ in rows if n == name})
    return text + '}  // extern "C"\n#pragma GCC visibility pop\n'


def main():
    rows = read(sys.argv[1])
    open(sys.argv[2], "w").write(version_script(rows))
    open(sys.argv[3], "w").write(source(rows))


if __name__ == "__main__":
    main()
