"""rdma-core's own test suite (package rdma-core, with python3-pyverbs) on one node."""

import ast
import glob
import os
import re
import shutil
import subprocess
from collections import defaultdict

from report import Result

SUITE = "/usr/share/doc/rdma-core/tests"
SECONDS_MAX = 900
# The output of `unittest -v` for a test, which may print lines before the verdict.
VERDICT = re.compile(r"^(test_\w+) \(([\w.]+)\)(?:\n.*?)?? \.\.\. .*?(ok|FAIL|ERROR|skipped ['\"].*?['\"])$",
                     re.MULTILINE | re.DOTALL)


def names():
    """Returns the generic tests of all releases of rdma-core, as tests.module.Class.test."""
    with open(os.path.join(os.path.dirname(__file__), "pyverbs-generic-tests.txt"), encoding="ascii") as lines:
        return [f"tests.{line.strip()}".replace("tests.tests.", "tests.") for line in lines if line.strip()]


def unpack(folder):
    """Unpacks the suite, which Debian ships compressed."""
    target = os.path.join(folder, "pyverbs-suite", "tests")
    shutil.copytree(SUITE, target)
    packed = glob.glob(os.path.join(target, "*.gz"))
    if packed:
        subprocess.run(["gunzip", *packed], check=True)
    return target


def installed(target):
    """Returns those of the tests that the installed release has."""
    found = set()
    for path in glob.glob(os.path.join(target, "test_*.py")):
        module = os.path.basename(path).removesuffix(".py")
        with open(path, encoding="utf-8") as text:
            classes = [node for node in ast.parse(text.read()).body if isinstance(node, ast.ClassDef)]
        found |= {f"tests.{module}.{one.name}.{test.name}" for one in classes for test in one.body
                  if isinstance(test, ast.FunctionDef)}
    return [name for name in names() if name in found]


def one_run(testbed, target, tests):
    """Returns the verdict of each test in one run of all."""
    argv = ["bash", "-c", f"cd {target} && exec /usr/bin/python3 run_tests.py --dev verbatim0 -v {' '.join(tests)}"]
    program = testbed.start("a", argv)
    program.wait(SECONDS_MAX)
    output = program.output()
    found = {}
    for test, owner, verdict in VERDICT.findall(output):
        owner = owner.removesuffix(f".{test}")
        found[f"{owner}.{test}"] = verdict
    return found, output


def run(testbed, runs):
    """Returns a result for each test over all runs: passed or skipped if it was so in each."""
    target = unpack(testbed.folder)
    tests = installed(target)
    verdicts = defaultdict(list)
    for number in range(1, runs + 1):
        found, output = one_run(testbed, target, tests)
        for name in tests:
            verdicts[name].append(found.get(name, "missing"))
        bad = [name for name in tests if not found.get(name, "missing").startswith(("ok", "skipped"))]
        skipped = [name for name in tests if found.get(name, "").startswith("skipped")]
        print(f"pyverbs: run {number}: {len(found) - len(bad) - len(skipped)} ok, {len(skipped)} skipped, "
              f"{len(bad)} failed: {' '.join(bad)}", flush=True)
        if bad:
            print(output)
    return [_result(name, verdicts[name]) for name in tests]


def _result(name, verdicts):
    reasons = sorted({verdict for verdict in verdicts if verdict.startswith("skipped")})
    if any(not verdict.startswith(("ok", "skipped")) for verdict in verdicts):
        failures = sum(not verdict.startswith(("ok", "skipped")) for verdict in verdicts)
        return Result("rdma-core", name, "FAILED", f"in {failures} of {len(verdicts)} runs")
    if any(verdict == "ok" for verdict in verdicts):
        note = f"in all of {len(verdicts)} runs" if not reasons else "; ".join(reasons) + " in some runs"
        return Result("rdma-core", name, "passed", note)
    return Result("rdma-core", name, "skipped", "; ".join(reasons).removeprefix("skipped "))
