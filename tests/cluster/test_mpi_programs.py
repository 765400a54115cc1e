#!/usr/bin/env python3
"""Debian's MPI programs with checks of their own on `verbatim cluster`: hpcc, NetPIPE; 64 ranks on four nodes; and Slurm
in the place of a file of hosts. The long set's, each skipped where its packages are missing."""

import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "programs"))
from clusterbed import USER, Clusterbed, run  # noqa: E402
from testbed import are_installed, wait_until  # noqa: E402
from test_cluster import CHECK, LIBFABRIC  # noqa: E402

HPCC_INPUT = pathlib.Path("/usr/share/doc/hpcc/examples/_hpccinf.txt")
LONG = 600  # Seconds, of one run.
MANY = 64
SLURM = """ClusterName=test
SlurmctldHost=n1
SlurmUser=root
AuthType=auth/none
CredType=cred/none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
StateSaveLocation={folder}/slurm
SlurmdSpoolDir={folder}/slurm/%n
SlurmctldPidFile={folder}/slurm/controller.pid
SlurmdPidFile={folder}/slurm/%n.pid
SlurmctldLogFile={folder}/slurm/controller.log
SlurmdLogFile={folder}/slurm/%n.log
TmpFS={folder}/slurm/%n
NodeName=n[1-4] CPUs=2
PartitionName=all Nodes=ALL Default=YES
"""


class Programs(Clusterbed):
    def mpirun(self, count, *words):
        self.write_hosts()
        done = self.verbatim("cluster", "run", "--", "mpirun", "-np", str(count), "-hostfile", "hosts", *words, timeout=LONG)
        return done.stdout + done.stderr

    def compile_check(self):
        self.run_command("mpicc", "-O1", "-o", "check", str(CHECK))

    def hpcc(self, *options):
        pathlib.Path(self.folder, "hpccinf.txt").write_text(re.sub(r"(?m)^1000 +Ns", "400 Ns", HPCC_INPUT.read_text()))
        self.mpirun(8, *options, "hpcc")
        found = pathlib.Path(self.folder, "hpccoutf.txt").read_text()
        self.assertIn("Success=1", found)
        self.assertEqual(set(re.findall(r"(\d+) tests completed and failed", found)), {"0"})
        self.assertNotIn("FAILED", found)

    def test_hpcc(self):
        if not are_installed("hpcc"):
            self.skipTest("not installed")
        self.verbatim("cluster", "up", "--slots", "2")
        self.hpcc()
        self.hpcc(*LIBFABRIC, "--mca", "mtl_ofi_provider_include", "verbs")

    def test_hpcc_over_iwarp(self):
        if not are_installed("hpcc"):
            self.skipTest("not installed")
        self.verbatim("cluster", "up", "--slots", "2", "--protocol", "iwarp")
        self.hpcc()

    def test_netpipe(self):
        if not are_installed("NPopenmpi"):
            self.skipTest("not installed")
        self.verbatim("cluster", "up", "--nodes", "2")
        found = self.mpirun(2, "--map-by", "node", "NPopenmpi", "-i", "-u", "65536")
        self.assertGreater(len(re.findall("Integrity check passed", found)), 20)
        self.assertNotIn("failed", found)

    def test_many_ranks(self):
        """More ranks than processors: they poll, and all must end; UCX waits longer for one that has no processor."""
        self.verbatim("cluster", "up", "--slots", str(MANY // 4))
        self.compile_check()
        self.assertIn(f"all as expected on {MANY} ranks", 
                      self.mpirun(MANY, "--oversubscribe", "-x", "UCX_UD_TIMEOUT=10m", "./check", "true"))

    def test_slurm(self):
        """It starts Open MPI's daemons, which see their own node by `verbatim run`."""
        if not are_installed("slurmctld", "slurmd", "salloc"):
            self.skipTest("not installed")
        if USER:
            self.skipTest("slurmd needs root")
        self.verbatim("cluster", "up", "--slots", "2")
        configuration = pathlib.Path(self.folder, "slurm.conf")
        configuration.write_text(SLURM.format(folder=self.folder), encoding="ascii")
        self.environment["SLURM_CONF"] = str(configuration)
        for name in ("n1", "n2", "n3", "n4"):
            pathlib.Path(self.folder, "slurm", name).mkdir(parents=True)
        self.start("n1", "slurmctld", "-D", "-c")
        for name in ("n1", "n2", "n3", "n4"):
            self.start(name, "slurmd", "-D", "-N", name)

        def idle():
            return self.verbatim("cluster", "run", "--", "sinfo", "-h", "-o", "%D %t", fails=True).stdout == "4 idle\n"

        wait_until(idle, 60, "Slurm's four nodes")
        self.compile_check()
        found = self.verbatim("cluster", "run", "--", "salloc", "-N", "4", "-n", "8", "mpirun", "--mca", "orte_launch_agent",
                              f"{self.program} run -- orted", "./check", "true")
        self.assertIn("all as expected on 8 ranks", found.stdout)

    def start(self, node, *words):
        daemon = subprocess.Popen([self.program, "cluster", "run", "--on", node, "--", *words], env=self.environment,
                                  cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        self.addCleanup(daemon.wait, 60)
        self.addCleanup(daemon.terminate)


if __name__ == "__main__":
    sys.exit(run(__doc__, "mpirun", "mpicc"))
