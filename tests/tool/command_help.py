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


def _commands(text):
    """The names of the commands of a help."""
    sections = re.split(r"^Commands:\n", text, maxsplit=1, flags=re.MULTILINE)
    return re.findall(r"^  (\S+)", sections[1].split("\n\n", 1)[0], re.MULTILINE) if len(sections) > 1 else []


def commands(build):
    """Returns the names of the commands, with their subcommands: 'fabric', 'fabric up'."""
    found = []
    for command in _commands(_help(f"{build}/bin/verbatim")):
        below = _commands(_help(f"{build}/bin/verbatim", command))
        found += [command, *(f"{command} {name}" for name in below)]
    return found


def options(build):
    """Returns the options of each command ("" is `verbatim` itself)."""
    program = f"{build}/bin/verbatim"
    found = {"": _options(_help(program))}
    for command in commands(build):
        found[command] = _options(_help(program, *command.split()))
    return found


def agent_options(build, program, *words):
    """Returns those of a daemon; the last line of its help names two."""
    return set(re.findall(r"(?<=[ \n])--[a-z-]+", _help(f"{build}/bin/{program}", *words).split("usage:", 1)[1]))
