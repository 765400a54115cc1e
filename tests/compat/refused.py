#!/usr/bin/env python3
"""What libibverbs and librdmacm refuse: the program `refused` makes each call on a node and says what it answered.
Fails where that is not what its table says, where docs/compatibility.md says something else, or where the sources
refuse what the table lacks. --write writes the document's section instead."""

import os
import pathlib
import re
import sys
from dataclasses import dataclass

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "programs"))

# pylint: disable=wrong-import-position
import report
from testbed import Failure, Testbed, option_parser

SECONDS_MAX = 60
FOLDERS = ("src/dropin/ibverbs", "src/dropin/rdmacm", "src/adapter", "src/ulp/rsocket")  # And those within.
# A refusal in the sources, and the first text after it in the same statement, which is the log
# line.
REFUSAL = re.compile(r'(?:\b(?:EOPNOTSUPP|ENOTSUP)\b|\bunsupported\()[^;"]*"((?:[^"\\]|\\.)*)"')
# Not by a call of a program on such a node: between programs of different releases; on a host of a fabric; on sockets
# that only the preloaded library makes; without a line, because libraries try it at each start.
NOT_A_CALL = ("the peer has another version of the protocol",
              "RAW_PACKET queue pairs are of Ethernet ports",
              "a fabric's paths come from its subnet administrator",
              "SDP has no mapped buffers",
              "the adapter has no enhanced connection options (ECE)")


@dataclass(frozen=True)
class Call:
    name: str
    option: str
    answer: str
    why: str
    log: str


def run(testbed):
    """Makes the calls on node a, and on an iWARP node."""
    testbed.set_variables("i", VERBATIM_PROTOCOL="iwarp")
    lines = []
    for node, *words in (("a",), ("i", "iwarp")):
        program = testbed.start(node, [os.path.join(testbed.build, "bin", "refused"), *words])
        program.expect_success(SECONDS_MAX)
        lines += [line.split("\t") for line in program.output().splitlines() if line.startswith("refused\t")]
    return [Call(*fields[1:]) for fields in lines]


def section(calls):
    return report.refused_section([(call.name, call.option, call.answer, call.why) for call in calls])


def refusals(text):
    """Returns, for each refusal, the longest part of its text without a placeholder."""
    for words in REFUSAL.findall(text):
        yield max(re.split(r"\{[^}]*\}", words), key=len).strip()


def check_sources(calls):
    """Checks that every such refusal in the sources was logged by a call of the table."""
    log = "\n".join(call.log for call in calls)
    found = [(path, words) for folder in FOLDERS for path in sorted(pathlib.Path(ROOT, folder).rglob("*.[ch]*"))
             if not path.name.endswith("_test.cpp") for words in refusals(path.read_text(encoding="utf-8"))]
    unmet = [f"{path.relative_to(ROOT)}: '{words}'" for path, words in found
             if words not in log and words not in NOT_A_CALL]
    if unmet:
        raise Failure("no call of tests/compat/refused_*.cpp meets these refusals:\n" + "\n".join(unmet))
    stale = set(NOT_A_CALL) - {words for _, words in found}
    if stale:
        raise Failure(f"nothing refuses with {stale}")


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--write", action="store_true", help="write the section of docs/compatibility.md")
    options = parser.parse_args()
    document = os.path.join(ROOT, "docs", "compatibility.md")
    with Testbed(options) as testbed:
        calls = run(testbed)
        check_sources(calls)
        if options.write:
            report.write_refused(document, section(calls))
        elif report.read_section(document, report.REFUSED_HEADING) != section(calls):
            raise Failure("docs/compatibility.md says something else: tests/compat/refused.py --write")
        print(f"{len(calls)} calls are refused as documented")


if __name__ == "__main__":
    sys.exit(main())
