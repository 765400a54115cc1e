"""Pages of the guide as a test sees them: blocks of commands to run, files to write, and copies to compare.

The form of a page (docs/guide/*.md):

- ```console: commands behind `$ `, and what they print; `NAME$ ` is a terminal of that name. In what they print, `...`
  is any text within a line, and a line of `...` any lines. Where no printed line is shown, none is compared.
- Another block, whose line before ends with "`FILE`:". FILE in a folder of the tree: a copy of some of its lines. Else:
  the file that the reader writes.
- ```text: a drawing; neither run nor compared.
- A block behind `<!-- not run: REASON -->`: shown only. The test lists it with its reason.
"""

import re

FENCE = re.compile(r"^```(\w*)\s*$")
NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")
FILE_NAME = re.compile(r"`([^`\s]+)`:$")
PROMPT = re.compile(r"^([a-z]*)\$(?: (.*))?$")


class PageError(Exception):
    """The page does not have the form above, or does not do what it says."""


def normal(text):
    """Lines with single spaces, without blank lines: tabs and columns are not compared."""
    return "".join(" ".join(line.split()) + "\n" for line in text.splitlines() if line.strip())


class Command:
    """A command of a terminal, and the lines that it must print."""

    def __init__(self, terminal, text, line):
        self.terminal = terminal
        self.text = text
        self.line = line
        self.expected = []

    def pattern(self, lines=None):
        """Returns a regular expression for its output, in the form of `normal`."""
        parts = []
        for line in self.expected if lines is None else lines:
            if line == "...":
                parts.append(r"(?:.*\n)*?")
            else:
                parts.append(".*".join(re.escape(part) for part in normal(line)[:-1].split("...")) + r"\n")
        return re.compile("".join(parts))


class Block:
    """A fenced block. `kind` is console, file or text."""

    def __init__(self, kind, lines, line):
        self.kind = kind
        self.lines = lines
        self.line = line
        self.file = None
        self.reason = None  # Why it is not run.

    def text(self):
        return "".join(line + "\n" for line in self.lines)

    def commands(self):
        commands = []
        for number, line in enumerate(self.lines, self.line + 1):
            found = PROMPT.match(line)
            if commands and commands[-1].text.endswith("\\") and not commands[-1].expected:
                commands[-1].text += "\n" + line
            elif found:
                commands.append(Command(found[1], found[2] or "", number))
            elif not commands:
                raise PageError(f"line {number}: a console block begins with a command, behind '$ '")
            elif line.strip():
                commands[-1].expected.append(line.rstrip())
        return commands


def blocks_of(text):
    """Returns all fenced blocks of a page, in order."""
    before, block, blocks = "", None, []
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if block is not None:
            if line == "```":
                blocks.append(block)
                block, before = None, ""
            else:
                block.lines.append(line)
        elif line.startswith("```"):
            if not fence:
                raise PageError(f"line {number}: a fence is ``` and one word")
            block = _begin(fence[1], before, number)
        elif line.strip():
            before = line.strip()
    if block is not None:
        raise PageError(f"line {block.line}: the block does not end")
    return blocks


def _begin(language, before, number):
    marked, named = NOT_RUN.match(before), FILE_NAME.search(before)
    kind = language if language in ("console", "text") else "file"
    block = Block(kind, [], number)
    if marked:
        block.reason = marked[1]
    elif kind == "file":
        if not named:
            raise PageError(f"line {number}: the line before the block does not end with \"`FILE`:\"")
        block.file = named[1]
    return block


def is_copy(block, original):
    """Returns true if the block's lines are consecutive lines of the original, with any indentation."""
    wanted = _without_indent(block.lines)
    lines = original.splitlines()
    return any(_without_indent(lines[start:start + len(wanted)]) == wanted
               for start in range(len(lines) - len(wanted) + 1))


def _without_indent(lines):
    depth = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return [line[depth:].rstrip() for line in lines]
