#!/usr/bin/env python3
"""A testbed leaves neither processes nor folders, however its test ends: `verbatim target` and other daemons, which have
left their parents, included."""

import os
import signal
import subprocess
import sys
import time

from leftovers import processes_that_name
from testbed import Failure, Testbed, option_parser, wait_until

SECONDS = 60
NQN = "nqn.2026-01.test:left"
WAYS = ("fails", "raises", "leaves", "exits", "SIGTERM", "SIGKILL", "SIGINT", "time limit")


def start_all(testbed):
    """A daemon with an agent, a program that runs on, one that has left its session, and one with an environment of its
    own."""
    environment = testbed.environment()
    subprocess.run([f"{testbed.build}/bin/verbatim", "target", "up", "--node", "a", "--address", testbed.address("a"),
                    "--nvme", NQN, "--ram", "1M", "--allow-any-host"], env=environment, check=True, timeout=SECONDS)
    testbed.start("b", ["sleep", "1000"])
    subprocess.run(["setsid", "--fork", "sleep", "1000"], env=environment, check=True)
    subprocess.run(["setsid", "--fork", "env", "--ignore-environment", "tail", "-F", f"{testbed.folder}/0.log"], check=True)


def end(way):
    if way == "fails":
        raise Failure("as it must")
    if way == "raises":
        raise RuntimeError("as it must")
    if way == "exits":
        os._exit(3)
    if way.startswith("SIG"):
        os.kill(os.getpid(), signal.Signals[way])
    if way != "leaves":
        time.sleep(SECONDS)  # Until it is killed.


def is_test_that_ends(options):
    with Testbed(options) as testbed:
        start_all(testbed)
        print(testbed.folder, flush=True)
        end(options.ends)


def descendants(pid):
    """Of the process, itself included: what ctest kills."""
    children = subprocess.run(["ps", "--ppid", str(pid), "-o", "pid="], check=False, capture_output=True, text=True)
    return [pid] + [one for child in children.stdout.split() for one in descendants(int(child))]


def kill_as_ctest_does(pid):
    tree = descendants(pid)
    os.kill(pid, signal.SIGSTOP)
    for one in tree:
        os.kill(one, signal.SIGKILL)


def check(way, options):
    words = [sys.executable, "-B", __file__, "--build", options.build, f"--preload={options.preload}", "--ends", way]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as test:
        folder = test.stdout.readline().strip()
        if not folder.startswith("/tmp/verbatim-"):
            raise Failure(f"{way}: the test did not begin: {folder}{test.stdout.read()}")
        if way == "time limit":
            kill_as_ctest_does(test.pid)
        said, _ = test.communicate(timeout=SECONDS)  # All that writes there has ended.
    if test.returncode == 0:
        raise Failure(f"{way}: the test has passed: {said}")
    wait_until(lambda: not processes_that_name(folder), SECONDS, f"{way}: the test's processes to end")
    wait_until(lambda: not os.path.exists(folder), SECONDS, f"{way}: its folder to go")
    if way == "leaves" and "left running: " not in said:
        raise Failure(f"nobody says that programs were left: {said}")
    print(f"passed: {way}", flush=True)


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--ends", choices=WAYS, help="be the test that ends so")
    options = parser.parse_args()
    if options.ends:
        return is_test_that_ends(options)
    for way in WAYS:
        check(way, options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
