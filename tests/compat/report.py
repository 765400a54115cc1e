"""The table of results, as text and as docs/compatibility.md."""

from collections import defaultdict
from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    group: str
    name: str
    result: str  # "passed", "FAILED", "refused", "skipped".
    note: str

    def is_failure(self):
        return self.result == "FAILED"


def summary(results):
    counts = defaultdict(int)
    for result in results:
        counts[result.result] += 1
    return f"{counts['passed']} passed, {counts['FAILED']} failed, {counts['refused']} refused, {counts['skipped']} skipped"


HEAD = """# Compatibility: what runs on Verbatim
Written by `./compat.sh --write`, which runs each program below, unmodified from Debian's packages, on two nodes in two
network namespaces that a pair of virtual Ethernet interfaces joins. Arguments that say where the peer is are left out.

{summary}.
"""

REFUSED_HEADING = "\n## What libibverbs and librdmacm refuse\n"
REFUSED_HEAD = """What the headers of rdma-core 44 offer, and what is exported for newer programs, but is not served. Each call says so with
the answer below, returned or in errno, and a line on standard error. Wrong use and limits that the device tells of are not here.

| call | with | answer | why |
|---|---|---|---|
"""


def refused_section(rows):
    """The last section, of calls, their options, answers and reasons."""
    lines = (f"| `{call}` | {option} | {answer} | {why} |\n" for call, option, answer, why in rows)
    return REFUSED_HEADING + REFUSED_HEAD + "".join(lines)


def read_refused(path):
    with open(path, encoding="utf-8") as document:
        _, heading, text = document.read().partition(REFUSED_HEADING)
    return heading + text


def write_refused(path, section):
    """The rest of the document stays."""
    with open(path, encoding="utf-8") as document:
        rest = document.read().partition(REFUSED_HEADING)[0]
    with open(path, "w", encoding="utf-8") as out:
        out.write(rest + section)


def write(path, results, version_of, refused):
    groups = defaultdict(list)
    for result in results:
        groups[result.group].append(result)
    with open(path, "w", encoding="utf-8") as out:
        out.write(HEAD.format(summary=summary(results)))
        for group, members in groups.items():
            version = version_of(group)
            out.write(f"\n## {group}{' ' + version if version else ''}\n| what was run | result | |\n|---|---|---|\n")
            for member in members:
                out.write(f"| `{member.name}` | {member.result} | {member.note} |\n")
        out.write(refused)
