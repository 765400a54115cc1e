#!/usr/bin/env python3
"""What is around a program: limits, namespaces, users, signals, what it closes. It works, or a line says what to do."""

import os
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))

from testbed import Testbed, option_parser  # noqa: E402

LAB = None  # Set in main.
SECONDS_MAX = 60
WORKS = r"^ok$"

# What the program (surrounded.cpp) does before it opens the device, between that and its queue pair, after it has
# connected that one, or after it in a thread with a stack of 64 KiB; and what is seen.
EVERYWHERE = ("before", "opened", "connected", "thread")
INSIDE = [
    ("nothing", EVERYWHERE, WORKS),
    ("undumpable", EVERYWHERE, WORKS),
    ("no_aslr", EVERYWHERE, WORKS),
    ("umask_0777", EVERYWHERE, WORKS),
    ("no_more_memory_lock", EVERYWHERE, WORKS),
    ("few_descriptors", ("before",), "ulimit -n"),
    ("few_descriptors", ("connected", "thread"), WORKS),
    ("no_more_descriptors", ("before", "opened"), "ulimit -n"),
    ("no_more_descriptors", ("connected", "thread"), WORKS),
    ("small_files", ("before",), "ulimit -f"),
    ("small_files", ("connected", "thread"), WORKS),
    ("small_space", ("before",), "ulimit -v"),
    ("small_stack_limit", EVERYWHERE, WORKS),
    ("closefrom", ("before",), WORKS),
    ("closed_standard", EVERYWHERE, WORKS),
    ("pipe_ignored", EVERYWHERE, WORKS),
    ("children_ignored", EVERYWHERE, WORKS),
    ("signals_blocked", EVERYWHERE, WORKS),
    ("subreaper", EVERYWHERE, WORKS),
    ("collects_children", EVERYWHERE, WORKS),
    ("vfork_child", EVERYWHERE, WORKS),
    ("no_new_privileges", EVERYWHERE, WORKS),
    ("no_home", EVERYWHERE, WORKS),
]
# The same as root of a user namespace.
INSIDE_AS_ROOT = [
    ("network_namespace", ("before", "connected", "thread"), WORKS),
    ("mount_namespace", EVERYWHERE, WORKS),
    ("process_namespace", ("before",), WORKS),
    ("process_namespace", ("opened",), "belongs to the process before fork"),
    ("chroot", ("before",), "cannot make .*XDG_RUNTIME_DIR"),
    ("chroot", ("opened", "connected", "thread"), WORKS),
]
ANOTHER_USER = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
BECOME_SUBREAPER = ("import ctypes, os, sys; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); "
                    "os.execvp(sys.argv[1], sys.argv[1:])")
# What is around `verbatim run`, as a command that executes the rest; what the program does; what is seen.
AROUND = [
    (["sh", "-c", "umask 0777; exec \"$@\"", "sh"], "nothing", WORKS),
    (["sh", "-c", "ulimit -n 20; exec \"$@\"", "sh"], "nothing", "ulimit -n"),
    (["sh", "-c", "ulimit -v 1000000; exec \"$@\"", "sh"], "nothing", "ulimit -v"),
    (["env", "-u", "HOME"], "nothing", WORKS),
    (["env", "--ignore-signal=CHLD,PIPE"], "nothing", WORKS),
    (["env", "--block-signal"], "nothing", WORKS),
    # A process that collects its children until there are none does not wait for the agent.
    (["unshare", "-Urpfm", "--kill-child", "--mount-proc"], "collects_children", WORKS),
    ([sys.executable, "-c", BECOME_SUBREAPER], "collects_children", WORKS),
    (["unshare", "-Ur"], "nothing", WORKS),
    (["unshare", "-Urn"], "nothing", WORKS),
    (["unshare", "-Urm", "sh", "-c", "mount -t tmpfs -o ro none /dev/shm; exec \"$@\"", "sh"], "nothing", WORKS),
    (["unshare", "-Urm", "sh", "-c", "mount -t tmpfs none /proc; exec \"$@\"", "sh"], "nothing", "is /proc mounted"),
    (["unshare", "-Urm", "sh", "-c", "mount -t tmpfs -o ro none /tmp; unset XDG_RUNTIME_DIR; exec \"$@\"", "sh"],
     "nothing", "cannot make .*Read-only file system.*XDG_RUNTIME_DIR|No such file"),
]
# What `verbatim run` starts, which starts the program.
BETWEEN = [
    (["unshare", "-Ur"], WORKS),
    (["unshare", "-Urn"], WORKS),
    (["unshare", "-Urpf", "--mount-proc"], WORKS),
    (["sh", "-c", "umask 0777; exec \"$@\"", "sh"], WORKS),
    ([sys.executable, "-c", BECOME_SUBREAPER], WORKS),
]


def run(command, **more):
    """Returns what is printed, in one line, and the exit status."""
    done = subprocess.run(command, env=LAB.environment() | more, text=True, check=False, timeout=SECONDS_MAX,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd="/")
    return done.stdout.strip().replace("\n", " "), done.returncode


def on_node(*command):
    return [f"{LAB.build}/bin/verbatim", "run", *LAB.run_options("a"), "--", *command]


def surrounded(what, when):
    return [f"{LAB.build}/bin/surrounded", what, when]


class Surroundings(unittest.TestCase):
    def setUp(self):
        if LAB.environment().get("LD_PRELOAD"):
            self.skipTest("sanitizers need address space and descriptors")

    def see(self, command, expected):
        with self.subTest(command=" ".join(command)):
            text, status = run(command)
            self.assertRegex(text, expected)
            self.assertEqual(status == 0, expected == WORKS, text)

    def needs_namespaces(self):
        if run(["unshare", "-Urpf", "--mount-proc", "true"])[1] != 0:
            self.skipTest("no user namespaces here")

    def needs_another_user(self):
        if not shutil.which("setpriv") or run([*ANOTHER_USER, "true"])[1] != 0:
            self.skipTest("only root becomes another user")

    def test_that_a_program_makes(self):
        for what, moments, expected in INSIDE:
            for when in moments:
                self.see(on_node(*surrounded(what, when)), expected)

    def test_that_a_program_with_rights_makes(self):
        self.needs_namespaces()
        for what, moments, expected in INSIDE_AS_ROOT:
            for when in moments:
                self.see(["unshare", "-Ur", *on_node(*surrounded(what, when))], expected)

    def test_around_verbatim(self):
        self.needs_namespaces()
        for around, what, expected in AROUND:
            self.see([*around, *on_node(*surrounded(what, "opened"))], expected)

    def test_between_verbatim_and_program(self):
        self.needs_namespaces()
        for between, expected in BETWEEN:
            self.see(on_node(*between, *surrounded("collects_children", "opened")), expected)

    def test_no_process_is_left(self):
        """Of another user: 'ulimit -u' does not count root's."""
        self.needs_another_user()
        others = [*ANOTHER_USER, "env", "-u", "XDG_RUNTIME_DIR", "prlimit", "--nproc=0"]
        self.see([*others, *on_node(*surrounded("nothing", "before"))], "ulimit -u")

    def test_another_user_below_run(self):
        self.needs_another_user()
        self.see(on_node(*ANOTHER_USER, *surrounded("nothing", "before")), "start verbatim behind")


def main():
    global LAB
    options = option_parser(__doc__).parse_args()
    with Testbed(options) as LAB:
        result = unittest.main(argv=sys.argv[:1], exit=False, verbosity=2).result
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
