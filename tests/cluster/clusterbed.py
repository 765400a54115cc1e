"""What the tests of clusters share: a cluster's folder and environment, and runs of its commands."""

import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "programs"))
from leftovers import end_processes_that_name, new_folder  # noqa: E402
from testbed import SKIPPED, are_installed, option_parser  # noqa: E402

SECONDS_MAX = 120
OPTIONS = None  # Set in run.
USER = {}  # Of subprocess.run, where root runs the tests as an ordinary user.


class Clusterbed(unittest.TestCase):
    def setUp(self):
        # In memory, as a user's runtime folder is.
        self.folder = new_folder("cluster", "/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp")
        if USER:
            shutil.chown(self.folder, USER["user"], USER["group"])
        self.addCleanup(shutil.rmtree, self.folder)
        self.addCleanup(end_processes_that_name, self.folder)
        self.environment = {"PATH": f"{OPTIONS.build}/bin:/usr/bin:/bin:/usr/sbin", "HOME": self.folder, "LANG": "C.UTF-8",
                            "XDG_RUNTIME_DIR": self.folder, "OMPI_ALLOW_RUN_AS_ROOT": "1",
                            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "TMPDIR": self.folder}
        self.program = f"{OPTIONS.build}/bin/verbatim"
        self.addCleanup(self.verbatim, "cluster", "down", fails=True)

    def run_command(self, *argv, fails=False, **keywords):
        done = subprocess.run(argv, env=self.environment, cwd=self.folder, text=True, check=False,
                              timeout=keywords.pop("timeout", SECONDS_MAX), stdin=keywords.pop("stdin", subprocess.DEVNULL),
                              capture_output=True, **USER, **keywords)
        if not fails:
            self.assertEqual(done.returncode, 0, f"{argv}\n{done.stdout}\n{done.stderr}")
        return done

    def verbatim(self, *words, fails=False, **keywords):
        return self.run_command(self.program, *words, fails=fails, **keywords)

    def write_hosts(self):
        """The file of hosts, for Open MPI."""
        hosts = self.verbatim("cluster", "show", "--hostfile").stdout
        pathlib.Path(self.folder, "hosts").write_text(hosts, encoding="ascii")
        return hosts


def can_be_run():
    """This user may read the tree and make namespaces."""
    user = [] if os.geteuid() == 0 and not USER else ["--user"]
    for command in (["test", "-x", f"{OPTIONS.build}/bin/verbatim"], ["unshare", *user, "--net", "true"]):
        if subprocess.run(command, capture_output=True, check=False, **USER).returncode != 0:
            print("skipped: this user may not run it:", *command)
            return False
    return True


def run(description, *programs):
    """Runs the tests of the main module as --user says, if the programs are installed. Returns the exit status."""
    global OPTIONS
    parser = option_parser(description)
    parser.add_argument("--user", choices=("root", "ordinary"), default="ordinary")
    OPTIONS = parser.parse_args()
    OPTIONS.build = os.path.abspath(OPTIONS.build)
    if OPTIONS.user == "root" and os.geteuid() != 0:
        print("skipped: not root")
        return SKIPPED
    if OPTIONS.user == "ordinary" and os.geteuid() == 0:
        USER.update(user="nobody", group="nogroup", extra_groups=[])
    if not can_be_run() or not are_installed("ip", *programs):
        return SKIPPED
    return 0 if unittest.main(argv=sys.argv[:1], exit=False, verbosity=2).result.wasSuccessful() else 1
