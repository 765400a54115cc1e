#!/usr/bin/env python3
"""Checks the shape of the tree: each folder has a short README, no source file has grown too long, no
line of a document is too long, no file names a place of one machine, and one header alone knows
kinds of processors."""

import argparse
import pathlib
import re
import sys

LINES_MAX = 400
README_LINES_MAX = 40
DOCUMENT_COLUMNS_MAX = 110
# Programs write them from their texts.
GENERATED_DOCUMENTS = ("docs/compatibility.md",)
SOURCES = (".cpp", ".h", ".c", ".py", ".sh")
TOP_FOLDERS = ("sim", "tests", "bench", "dev", "fuzz")
# Files that are tables rather than code, each with its reason.
LONG_BY_NATURE = ()
PROCESSOR_HEADER = "src/base/processor.h"
PROCESSOR = re.compile(r"\b__builtin_ia32_|\b__(?:x86_64|i386|aarch64|arm)__|\b(?:asm|__asm__) volatile")
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|home)/\w+")


def folders_of(root):
    """Returns the folders that have code and so need a README."""
    for path in sorted((root / "src").rglob("*")):
        if path.is_dir() and any(child.suffix in (".cpp", ".h") for child in path.iterdir()):
            yield path
    for name in TOP_FOLDERS:
        if (root / name).is_dir() and any((root / name).iterdir()):
            yield root / name


def readme_faults(root):
    for folder in folders_of(root):
        relative = folder.relative_to(root)
        readme = folder / "README.md"
        if not readme.exists():
            yield f"{relative}/ has no README.md"
        elif len(readme.read_text(encoding="utf-8").splitlines()) > README_LINES_MAX:
            yield f"{relative}/README.md has more than {README_LINES_MAX} lines"
        elif not readme.read_text(encoding="utf-8").startswith("# "):
            yield f"{relative}/README.md has no heading: was it formatted as code?"


def sources_of(root):
    for folder in ("src", "include", *TOP_FOLDERS, "examples", "docs"):
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path
    # A worktree has a file ".git" that refers to its repository.
    yield from (path for path in sorted(root.glob("*")) if path.is_file() and path.name != ".git")


def source_faults(root):
    for path in sources_of(root):
        relative = path.relative_to(root)
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # A capture or another binary file.
        lines = text.splitlines()
        if (path.suffix in SOURCES and len(lines) > LINES_MAX
                and str(relative) not in LONG_BY_NATURE):
            yield f"{relative} has {len(lines)} lines: a file holds one concept in at most {LINES_MAX}"
        for number, line in enumerate(lines, 1):
            if MACHINE_PATH.search(line) and path.name != pathlib.Path(__file__).name:
                yield f"{relative}:{number} names a place of one machine: {line.strip()}"
            if (PROCESSOR.search(line) and path.suffix in (".cpp", ".h", ".c")
                    and relative.parts[0] == "src" and str(relative) != PROCESSOR_HEADER):
                yield f"{relative}:{number} knows a kind of processor: that belongs into {PROCESSOR_HEADER}"


def prose_of(text):
    """Returns the numbered lines of a Markdown document, without tables, code and comments."""
    in_code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            in_code = not in_code
        elif not in_code and not line.startswith(("|", "    ", "<!--")):
            yield number, line


def document_faults(root):
    for path in sources_of(root):
        relative = path.relative_to(root)
        if path.suffix != ".md" or str(relative) in GENERATED_DOCUMENTS:
            continue
        for number, line in prose_of(path.read_text(encoding="utf-8")):
            if len(line) > DOCUMENT_COLUMNS_MAX:
                yield f"{relative}:{number} has {len(line)} columns: at most {DOCUMENT_COLUMNS_MAX}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=pathlib.Path, help="root of the source tree")
    root = parser.parse_args().root
    faults = [*readme_faults(root), *source_faults(root), *document_faults(root)]
    print("\n".join(faults) or "the tree is in shape")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
