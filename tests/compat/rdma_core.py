#!/usr/bin/env python3
"""rdma-core's own test suite from a checkout of it, such as of its newest release, on RoCE, iWARP and a fabric's host. Run
by hand, as root, in a folder that is not this tree:

    git clone https://github.com/linux-rdma/rdma-core
    apt-get install cmake cython3 libnl-3-dev libnl-route-3-dev libudev-dev ninja-build python3-dev
    python3 tests/compat/rdma_core.py rdma-core

It builds pyverbs in the checkout's folder `build`, once. Tests that fail must be in KNOWN, with a reason."""

import argparse
import glob
import os
import subprocess
import sys
import tempfile
from collections import Counter

from pyverbs import VERDICT

SECONDS_MAX = 900
# Part of a test's name, or of the world that it runs in, to why it fails there.
KNOWN = {
    "iwarp-cm": {"test_rdmacm_async_traffic": "TCP has no ACK time-out to be read back; it skips Intel's iWARP by name"},
}
# In a namespace of its own: lo alone would have no address that rdma_cm's tests take.
SET_UP = """ip link set lo up
ip link add eth0 type veth peer name eth1
ip addr add 10.9.0.1/24 dev eth0; ip link set eth0 up; ip link set eth1 up
until ip -6 addr show dev eth0 scope link -tentative | grep -q inet6; do sleep 0.1; done
"""
FABRIC = """ip link set lo up
{verbatim} fabric generate fat-tree --hosts 4 | {verbatim} fabric up - --manager opensm
until {verbatim} run --host H1 -- rdma link | grep -q ACTIVE; do sleep 0.2; done
"""
# World: what comes before, options of `run`, the suite's options and tests. iWARP's GIDs end with zeros, which the suite
# takes for an empty entry: traffic whose queue pairs no rdma_cm connects is skipped, as on cards.
WORLDS = {
    "roce": (SET_UP, "--address 10.9.0.1", "", ""),
    "iwarp": (SET_UP, "--protocol iwarp --address 10.9.0.1", "", ""),
    "iwarp-cm": (SET_UP, "--protocol iwarp --address 10.9.0.1", "--gid 0", "tests.test_rdmacm"),
    "infiniband": (FABRIC, "--host H1", "", ""),
}


def build(checkout):
    """Builds pyverbs and what it is linked with, for the system's python."""
    folder = os.path.join(checkout, "build")
    if glob.glob(f"{folder}/python/pyverbs/*.so"):
        return
    environment = os.environ | {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    subprocess.run(["cmake", "-GNinja", "-DIN_PLACE=1", "-DNO_MAN_PAGES=1", "-DPython_EXECUTABLE=/usr/bin/python3",
                    "-DCMAKE_C_FLAGS=-O0 -w", "-S", checkout, "-B", folder], env=environment, check=True)
    listed = subprocess.run(["ninja", "-C", folder, "-t", "targets", "all"], capture_output=True, text=True, check=True)
    targets = [line.split(":")[0] for line in listed.stdout.splitlines()]
    modules = [name for name in targets if name.startswith("python/pyverbs/") and name.endswith(".so")]
    subprocess.run(["ninja", "-C", folder, *modules], env=environment, check=True)


def run(world, checkout, verbatim, runtime):
    """Returns the suite's output."""
    before, node, options, tests = WORLDS[world]
    script = f"""set -e; {before.format(verbatim=verbatim)}
cd {checkout}/tests
status=0; {verbatim} run {node} -- /usr/bin/python3 run_tests.py --dev verbatim0 {options} -v {tests} || status=$?
{verbatim} fabric down 2>/dev/null || true
exit $status"""
    environment = os.environ | {"XDG_RUNTIME_DIR": runtime, "PYTHONPATH": f"{checkout}/build/python",
                                "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}
    done = subprocess.run(["unshare", "--net", "bash", "-c", script], env=environment, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.STDOUT, errors="replace", timeout=SECONDS_MAX, check=False)
    return done.stdout


def judge(world, output):
    """Prints the counts, why tests were skipped, and the failures. Returns whether all of these are known."""
    verdicts = VERDICT.findall(output)
    kinds = Counter(verdict.split()[0] for _, _, verdict in verdicts)
    print(f"{world}: {kinds['ok']} passed, {kinds['skipped']} skipped, {kinds['FAIL'] + kinds['ERROR']} failed")
    reasons = Counter(verdict.removeprefix("skipped ") for _, _, verdict in verdicts if verdict.startswith("skipped"))
    for reason, count in reasons.most_common():
        print(f"  {count} skipped: {reason}")
    failed = [(test, owner) for test, owner, verdict in verdicts if verdict in ("FAIL", "ERROR")]
    for test, owner in failed:
        print(f"  failed: {owner}: {KNOWN.get(world, {}).get(test, 'UNKNOWN')}")
    if not verdicts:
        print(output)
    return bool(verdicts) and all(test in KNOWN.get(world, {}) for test, _ in failed)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build", help="Verbatim's build folder")
    parser.add_argument("checkout", help="rdma-core's sources")
    parser.add_argument("worlds", nargs="*", help=f"some of: {' '.join(WORLDS)}")
    options = parser.parse_args()
    checkout = os.path.abspath(options.checkout)
    build(checkout)
    all_known = True
    for world in options.worlds or WORLDS:
        with tempfile.TemporaryDirectory(prefix="verbatim-rdma-core.") as runtime:
            output = run(world, checkout, os.path.abspath(options.build) + "/bin/verbatim", runtime)
            with open(os.path.join(checkout, "build", f"verbatim-{world}.log"), "w", encoding="utf-8") as log:
                log.write(output)
            all_known &= judge(world, output)
    return 0 if all_known else 1


if __name__ == "__main__":
    sys.exit(main())
