"""The table of results, as text and as docs/compatibility.md."""

import re
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

The column InfiniBand has the same programs between two hosts of a fabric, three switches apart, which Debian's opensm
manages: {infiniband}. A dash: the row has no place there (another path, Ethernet frames, IPv6 addresses).
"""

REFUSED_HEADING = "\n## What libibverbs and librdmacm refuse\n"
REFUSED_HEAD = """What the headers of rdma-core 44 offer, and what is exported for newer programs, but is not served. Each call says so with
the answer below, returned or in errno, and a line on standard error. Wrong use and limits that the device tells of are not here.

| call | with | answer | why |
|---|---|---|---|
"""


# Written by hand, from what rdma_core.py prints.
SUITE_HEADING = "\n## rdma-core 65's own suite, and RDMA netlink\n"

PEERS_HEADINGS = {"rxe": "\n## Linux's rdma_rxe\n", "siw": "\n## Linux's siw\n"}
PEERS_HEAD = """Written by `python3 tests/peers/run.py --stack {stack} --write`: {version} under QEMU. The first rows are of programs that request
each way and compare every byte, in messages of no byte to 8 MiB, and of what either side says of errors (`tests/peers/`){remark}
perftest's `-R` connects a second time without waiting until its server listens again, for which the guest is too slow.

| what was run | the kernel serves | we serve |
|---|---|---|
"""


PEERS_REMARKS = {
    "rxe": '; with\nwhich MTUs, stands behind "passed".',
    "siw": ". As a peer,\nsiw does not look at a region's right to be read, and has no windows: what it invalidates is a region.",
}


def refused_section(rows):
    """Returns the last section: calls, their options, results and reasons."""
    lines = (f"| `{call}` | {option} | {answer} | {why} |\n" for call, option, answer, why in rows)
    return REFUSED_HEADING + REFUSED_HEAD + "".join(lines)


def read_section(path, heading):
    with open(path, encoding="utf-8") as document:
        _, found, text = document.read().partition(heading)
    return found + text[:end_of_section(text)]


def end_of_section(text):
    next_heading = text.find("\n## ")
    return next_heading if next_heading >= 0 else len(text)


def write_section(path, heading, section):
    """Writes a section; the rest of the document is kept, and a new section is added at the end."""
    with open(path, encoding="utf-8") as document:
        before, _, old = document.read().partition(heading)
    with open(path, "w", encoding="utf-8") as out:
        out.write(before + section + old[end_of_section(old):])


def write_refused(path, section):
    write_section(path, REFUSED_HEADING, section)


def write_peers(path, stack, version, passed):
    """`stack`: rxe or siw. `passed`: (what was run, "ours" or "theirs" as the server) to MTUs, or to one empty
    text."""
    def cell(name, side):
        mtus = passed.get((name, side))
        return "not run" if mtus is None else " ".join(["passed", *filter(None, mtus)])

    names = dict.fromkeys(name for name, _ in passed)
    rows = (f"| `{name}` | {cell(name, 'theirs')} | {cell(name, 'ours')} |\n" for name in names)
    heading = PEERS_HEADINGS[stack]
    write_section(path, heading, heading + PEERS_HEAD.format(stack=stack, version=f"Linux {version}", remark=PEERS_REMARKS[stack]) + "".join(rows))


def read_results(path):
    """Returns what the document says of RoCE and iWARP."""
    results = []
    with open(path, encoding="utf-8") as document:
        for line in document:
            if line.startswith("## "):
                group = line.split()[1]
            row = re.fullmatch(r"\| `(.*)` \| (passed|FAILED|refused|skipped|not run) \| [^|]+ \| (.*) \|\n", line)
            if row:
                results.append(Result(group, *row.groups()))
    return results


def with_rows_of(results, over_infiniband):
    """Adds the rows that have run over InfiniBand alone."""
    known = {(result.group, result.name) for result in results}
    return results + [Result(result.group, result.name, "not run", "") for result in over_infiniband
                      if result.result != "-" and (result.group, result.name) not in known]


def write(path, results, over_infiniband, version_of, other_tests):
    """`over_infiniband`: of the same rows between hosts of a fabric."""
    columns = {(result.group, result.name): result for result in over_infiniband}
    groups = defaultdict(list)
    for result in results:
        groups[result.group].append(result)
    with open(path, "w", encoding="utf-8") as out:
        out.write(HEAD.format(summary=summary(results), infiniband=summary(over_infiniband)))
        for group, members in groups.items():
            version = version_of(group)
            out.write(f"\n## {group}{' ' + version if version else ''}\n| what was run | RoCE, iWARP | InfiniBand | |\n|---|---|---|---|\n")
            for member in members:
                other = columns.get((member.group, member.name))
                out.write(f"| `{member.name}` | {member.result} | {other.result if other else '-'} | "
                          f"{member.note} |\n")
        out.write(other_tests)
