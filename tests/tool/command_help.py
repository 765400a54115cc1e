"""What `verbatim --help` says, as values: the one source with which man pages and completion are compared."""

import re
import subprocess

OPTION = re.compile(r"^  (?:(-\w),)?\s*(--[a-z][a-z-]*)", re.MULTILINE)
# Options of every command, which the pages describe once.
COMMON = {"-h", "--help", "--version"}


def _help(program, *words):
    return subprocess.run([program, *words, "--help"], text=True, check=True, capture_output=True, timeout=60).stdout


def _options(text):
    return {name for names in OPTION.findall(text) for name in names if name}


def commands(build):
    """Returns the names of the commands."""
    text = _help(f"{build}/bin/verbatim")
    section = text.split("Commands:", 1)[1].split("\n\n", 1)[0]
    return re.findall(r"^  (\S+)", section, re.MULTILINE)


def options(build):
    """Returns the options of each command ("" is `verbatim` itself)."""
    program = f"{build}/bin/verbatim"
    found = {"": _options(_help(program))}
    for command in commands(build):
        found[command] = _options(_help(program, command))
    return found


def agent_options(build):
    """Returns those of verbatimd; the last line names two."""
    return set(re.findall(r"(?<=[ \n])--[a-z-]+", _help(f"{build}/bin/verbatimd").split("usage:", 1)[1]))
