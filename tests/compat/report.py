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


def write(path, results, version_of, refused=""):
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
