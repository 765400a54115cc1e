#!/usr/bin/env python3
"""`verbatim cluster`: nodes with a network of their own each, and Open MPI by a hostfile on them, content checked and
with packets of RDMA between every two nodes; over RoCE, iWARP and an InfiniBand fabric."""

import dataclasses
import json
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "programs"))
from clusterbed import SECONDS_MAX, USER, Clusterbed, run  # noqa: E402
from testbed import are_installed  # noqa: E402

CHECK = pathlib.Path(__file__).parents[1] / "compat" / "mpi_check.c"
# On a busy machine an agent may need more time than `status` gives it.
SHOW = """for again in 1 2 3 4 5 6; do
  verbatim cluster show --json > status && ! grep -q '"error"' status && break
done
verbatim cluster show"""
LIBFABRIC = ("--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "osc", "^ucx")


@dataclasses.dataclass(frozen=True)
class Starter:
    """Of ranks, by a file of hosts."""
    compiler: str
    words: tuple


OPEN_MPI = Starter("mpicc.openmpi", ("mpirun.openmpi", "-hostfile", "hosts"))
MPICH = Starter("mpicc.mpich", ("mpiexec.mpich", "-f", "hosts"))


class Cluster(Clusterbed):
    def mpi(self, *options, starter=OPEN_MPI):
        """Runs eight ranks that check what they send, and returns the cluster's status when all are connected."""
        program = f"{starter.compiler}_check"
        if not os.path.exists(f"{self.folder}/{program}"):
            self.run_command(starter.compiler, "-O1", "-o", program, str(CHECK))
        hosts = self.write_hosts()
        if starter is MPICH:
            pathlib.Path(self.folder, "hosts").write_text(hosts.replace(" slots=", ":"), encoding="ascii")
        done = self.verbatim("cluster", "run", "--", *starter.words, "-np", "8", *options, f"./{program}", SHOW)
        self.assertIn("all as expected on 8 ranks", done.stdout)
        return json.loads(pathlib.Path(self.folder, "status").read_text(encoding="ascii"))

    def expect_rdma_between_all(self, status):
        """Every two nodes have sent packets over connected queue pairs to each other."""
        def names(node):
            for device in node["status"]:
                yield from (entry["gid"] for entry in device["gids"])
                yield from ("::ffff:" + address for address in device["addresses"])
                yield device.get("lid")

        def sent(node, to):
            pairs = [pair for device in node["status"] for program in device["programs"] for pair in program["queue_pairs"]]
            return sum(pair["counters"]["packets_sent"] for pair in pairs
                       if pair["dest_gid"] in to or (pair["dest_gid"] == "::" and pair.get("dest_lid") in to))

        for node in status:
            for other in status:
                if node is not other:
                    known = {name for name in names(other) if name}
                    self.assertGreater(sent(node, known), 0, f"{node['node']} to {other['node']}")

    def test_nodes_are_hosts_of_their_own(self):
        self.assertIn("4 nodes, n1 to n4", self.verbatim("cluster", "up").stdout)
        self.assertEqual(self.verbatim("cluster", "run", "--", "hostname").stdout, "n1\n")
        for where in ("n3", "10.77.0.3"):
            self.assertEqual(self.verbatim("cluster", "run", "--on", where, "--", "hostname").stdout, "n3\n")
        devices = self.verbatim("cluster", "run", "--on", "n2", "--", "ibv_devices").stdout
        self.assertIn("verbatim0", devices)
        self.assertEqual(self.verbatim("cluster", "run", "--", "sh", "-c", "exit 7", fails=True).returncode, 7)
        # From node to node, as ssh.
        nested = self.verbatim("cluster", "run", "--", "verbatim", "cluster", "agent", "-x", "n4", "hostname;", "echo", "$0")
        self.assertEqual(nested.stdout, "n4\n/bin/sh\n")
        self.assertIn("service cluster 'default'", self.verbatim("status").stdout)
        self.assertEqual(self.verbatim("cluster", "run", "--", "getent", "hosts", "n2").stdout.split(), ["10.77.0.2", "n2"])

    def test_data_crosses_the_network(self):
        self.verbatim("cluster", "up", "--nodes", "2")
        server = subprocess.Popen([self.program, "cluster", "run", "--on", "n2", "--", "ib_write_bw", "-F"],
                                  env=self.environment, stdout=subprocess.DEVNULL, **USER)
        listens = "until ss -ltn | grep -q ':18515 '; do sleep 0.05; done"
        self.verbatim("cluster", "run", "--on", "n2", "--", "sh", "-c", listens)
        self.assertIn("65536", self.verbatim("cluster", "run", "--", "ib_write_bw", "-F", "n2").stdout)
        self.assertEqual(server.wait(SECONDS_MAX), 0)

    def test_down_ends_programs_and_leaves_nothing(self):
        self.verbatim("cluster", "up", "--nodes", "2")
        program = subprocess.Popen([self.program, "cluster", "run", "--", "sleep", "1000"],
                                   env=self.environment, **USER)
        self.verbatim("cluster", "run", "--", "sh", "-c", "until pgrep -x sleep > /dev/null; do sleep 0.05; done")
        self.verbatim("cluster", "down")
        self.assertNotEqual(program.wait(SECONDS_MAX), 0)
        left = [str(path) for path in pathlib.Path(self.folder).rglob("*cluster*")]
        self.assertEqual(left, [])

    def test_mistakes_are_explained(self):
        def says(text, *words, status=1):
            done = self.verbatim("cluster", *words, fails=True)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(text, done.stderr)

        says("'verbatim cluster up' starts one", "run", "--", "true")
        says("'verbatim cluster up' starts", "show")
        says("no cluster 'default' runs", "down")
        says("--nodes: 1 to 64, not '65'", "up", "--nodes", "65", status=2)
        says("--slots: 1 to 1024, not 'x'", "up", "--slots", "x", status=2)
        self.verbatim("cluster", "up", "--nodes", "1")
        says("'verbatim cluster down' ends it", "up")
        says("has no node 'n9'; it has n1", "run", "--on", "n9", "--", "true")
        says("which command?", "run", status=2)

    def test_a_killed_service_is_noticed(self):
        self.verbatim("cluster", "up", "--nodes", "1")
        status = json.loads(self.verbatim("status", "--json").stdout)
        process = next(one["process"] for one in status if one.get("service") == "cluster")
        os.kill(process, 9)
        until_gone = "while kill -0 $1 2> /dev/null; do sleep 0.05; done"
        self.run_command("sh", "-c", until_gone, "sh", str(process))
        done = self.verbatim("cluster", "run", "--", "true", fails=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("'verbatim cluster up'", done.stderr)
        self.verbatim("cluster", "up", "--nodes", "1")

    def test_mpi_over_roce(self):
        self.verbatim("cluster", "up", "--slots", "2")
        self.expect_rdma_between_all(self.mpi())
        self.expect_rdma_between_all(self.mpi(*LIBFABRIC, "--mca", "mtl_ofi_provider_include", "verbs"))

    def test_mpich_over_roce(self):
        if not are_installed("mpiexec.mpich", "mpicc.mpich"):
            self.skipTest("not installed")
        self.verbatim("cluster", "up", "--slots", "2")
        self.expect_rdma_between_all(self.mpi(starter=MPICH))

    def test_mpi_over_iwarp(self):
        self.verbatim("cluster", "up", "--slots", "2", "--protocol", "iwarp")
        self.expect_rdma_between_all(self.mpi())

    def test_mpi_over_infiniband(self):
        topology = self.verbatim("fabric", "generate", "fat-tree", "--hosts", "4").stdout
        pathlib.Path(self.folder, "net").write_text(topology, encoding="ascii")
        self.verbatim("fabric", "up", "net", "--manager", "opensm")
        self.addCleanup(self.verbatim, "fabric", "down")
        self.verbatim("cluster", "up", "--slots", "2", "--hosts", "H1,H2,H3,H4")
        self.expect_rdma_between_all(self.mpi())


if __name__ == "__main__":
    sys.exit(run(__doc__, "mpirun", "mpicc", "opensm", "ib_write_bw", "ss"))
