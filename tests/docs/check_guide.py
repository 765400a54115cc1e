#!/usr/bin/env python3
"""Checks the guide as a whole: the index leads to every page, links lead to files, every block has a form that the
tests know; and lists the commands that are shown but not run, with the reason."""

import argparse
import pathlib
import re
import sys

from page import PageError, blocks_of

LINK = re.compile(r"\]\(([^)\s]+)\)")
ENDLESS = re.compile(r"\s*(until|while)\b")
BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def faults_of(guide):
    """Returns a line of text for each fault."""
    index = guide / "README.md"
    linked = set(LINK.findall(index.read_text(encoding="utf-8")))
    for page in sorted(guide.glob("*.md")):
        text = page.read_text(encoding="utf-8")
        if page != index and page.name not in linked:
            yield f"{index.name} does not lead to {page.name}"
        if not text.startswith("# "):
            yield f"{page.name} does not begin with its title"
        for link in LINK.findall(BLOCK.sub("", text)):
            if "://" not in link and not (guide / link.split("#")[0]).exists():
                yield f"{page.name}: {link} leads nowhere"
        try:
            blocks = blocks_of(text)
            for block in blocks:
                if block.kind == "console":
                    for command in block.commands():
                        if ENDLESS.match(command.text):
                            yield f"{page.name}:{command.line}: runs for ever where a program is missing: timeout"
        except PageError as error:
            yield f"{page.name}: {error}"
            continue
        for block in blocks:
            if block.reason:
                print(f"not run: {page.name}:{block.line}: {block.reason}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("guide", type=pathlib.Path, help="folder of the pages")
    faults = list(faults_of(parser.parse_args().guide))
    print("\n".join(faults) or "the guide is whole")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
