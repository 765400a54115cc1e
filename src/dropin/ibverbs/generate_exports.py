#!/usr/bin/env python3
"""Makes a drop-in's version script, and its functions that are not implemented, from the list.

    generate_exports.py exports.txt library.map exports.cpp

Its guards too: an exported function calls the one of its name in verbatim::entry, and what that throws becomes its failure.
"""
import sys

# What a function that is not implemented looks like, by the second column of the list.
FUNCTIONS = {
    "errno": ("int", "return verbatim::dropin::refuse_as_errno({name});"),
    "minus_one": ("int", "return verbatim::dropin::refuse_as_minus_one({name});"),
    "null": ("void*", "return verbatim::dropin::refuse_as_null({name});"),
    "nothing": ("void", "verbatim::dropin::refuse_without_value({name});"),
    "ignored": ("void", ""),
}


def read(path):
    """Rows of name, version, whether it is the default one, and kind; headers that declare the names; and of guarded
    functions their name, kind of failure and number of arguments."""
    rows, headers, guards = [], [], []
    for line in open(path):
        if line.startswith("include "):
            headers.append(line.split()[1])
            continue
        if line.startswith("#") or not line.strip():
            continue
        symbol, kind, *guard = line.split()
        name, version = symbol.replace("@@", "@").split("@")
        rows.append((name, version, "@@" in symbol, kind))
        if guard:
            guards.append((name, guard[0], int(guard[1])))
    return rows, headers, guards


def version_key(version):
    private = "PRIVATE" in version
    return private, [int(part) for part in version.split("_")[-1].split(".")]


def version_script(rows):
    """Public nodes inherit from the one before. `local: *` hides everything that is not in the
    list; it stands in a node whose names are all default ones, for it would hide others there."""
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
    # An entry that is not the default has a name of its own; the directive gives it the public one.
    symbol = name if default else f"{name}__{version.replace('.', '_')}"
    directive = "" if default else f'asm(".symver {symbol}, {name}@{version}");\n'
    label = name if default else f"{name}@{version}"
    quoted = '"' + label + '"'
    return f"{directive}{returned} {symbol}() {{ {body.format(name=quoted)} }}\n"


def alias(name, version):
    """A jump to the function of the default version."""
    symbol = f"{name}__{version.replace('.', '_')}"
    return (
        f'asm(".pushsection .text\\n.globl {symbol}\\n.type {symbol}, @function\\n{symbol}:\\n"\n'
        f'    "endbr64\\njmp {name}@PLT\\n.size {symbol}, . - {symbol}\\n.popsection\\n"\n'
        f'    ".symver {symbol}, {name}@{version}");\n'
    )


def flag(name, versions):
    """One byte with a label for each version; `versions` tells which is the default one. No label
    has the bare name: the linker would drop it as a double of the others."""
    text = f'asm(".pushsection .bss.{name}, \\"aw\\", @nobits\\n"\n'
    labels = [(f"{name}__{version.replace('.', '_')}", version) for version in versions]
    for label, _ in labels:
        text += f'    ".globl {label}\\n.type {label}, @object\\n.size {label}, 1\\n{label}:\\n"\n'
    text += '    ".zero 1\\n.popsection\\n"\n'
    for label, version in labels:
        mark = "@@" if versions[version] else "@"
        text += f'    ".symver {label}, {name}{mark}{version}\\n"\n'
    return text + '    "");\n'


def guard(name, failing, count):
    signature = f"verbatim::dropin::Signature<decltype({name})>"
    parameters = ", ".join(f"{signature}::Argument<{i}> a{i}" for i in range(count))
    arguments = ", ".join(f"a{i}" for i in range(count))
    return (
        f"namespace verbatim::entry {{ [[gnu::visibility(\"hidden\")]] decltype(::{name}) {name}; }}\n"
        f"{signature}::Returned {name}({parameters}) {{\n"
        f"  using namespace verbatim::dropin;\n"
        f'  return guarded<Failing::{failing}>("{name}", [&] {{ return verbatim::entry::{name}({arguments}); }});\n}}\n'
    )


def source(rows, headers, guards):
    text = "// Made from exports.txt by generate_exports.py.\n"
    for header in ("dropin/ibverbs/guard.h", "dropin/ibverbs/not_implemented.h", *headers):
        text += f'#include "{header}"\n'
    text += "\n" + "".join(guard(*one) for one in guards) + "\n"
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
    rows, headers, guards = read(sys.argv[1])
    open(sys.argv[2], "w").write(version_script(rows))
    open(sys.argv[3], "w").write(source(rows, headers, guards))


if __name__ == "__main__":
    main()
