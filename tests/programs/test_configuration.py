#!/usr/bin/env python3
"""A node's file, the variables and options that count before it, and the devices that it may look like: what programs
and commands see."""

import os
import re
import socket
import subprocess
import sys
import time
import unittest

from testbed import Testbed, option_parser, wait_until

LAB = None  # Set in main.


def verbatim(*argv, prefix=(), **variables):
    """Runs the command to its end in the testbed's environment."""
    return subprocess.run([*prefix, f"{LAB.build}/bin/verbatim", *argv], env=LAB.environment() | variables, text=True,
                          check=False, timeout=60, stdin=subprocess.DEVNULL, capture_output=True)


def write(node, text):
    os.makedirs(f"{LAB.folder}/config", exist_ok=True)
    path = f"{LAB.folder}/config/{node}.conf"
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def address():
    return f"address = {LAB.address('a')}\n"


def run_on(node, *argv, options=(), prefix=()):
    """Returns the output of a program on the node, which must succeed."""
    done = verbatim("run", "--node", node, *options, "--", *argv, prefix=prefix)
    if done.returncode != 0:
        raise AssertionError(f"{argv} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return done.stdout


class File(unittest.TestCase):
    def setUp(self):
        gone_all()

    def test_programs_and_commands_see_its_values(self):
        write("f", address() + "device = mlx5_0\nnode_guid = 0200:0000:0000:00aa\nroce = v2\n")
        self.assertRegex(run_on("f", "ibv_devices"), r"mlx5_0\s+02000000000000aa")
        self.assertEqual(run_on("f", "ls", "/sys/class/infiniband"), "mlx5_0\n")
        self.assertEqual(run_on("f", "cat", "/sys/class/infiniband_verbs/uverbs0/ibdev"), "mlx5_0\n")
        self.assertEqual(run_on("f", "cat", "/sys/class/infiniband/mlx5_0/node_guid"), "0200:0000:0000:00aa\n")
        self.assertIn(LAB.address("a"), run_on("f", "ibv_devinfo", "-v", "-d", "mlx5_0"))
        self.assertRegex(verbatim("devices", VERBATIM_NODE="f").stdout, r"mlx5_0 +f +0200:0000:0000:00aa")

    def test_options_count_before_variables_before_the_file(self):
        write("f", address() + "device = of_file\n")
        shown = verbatim("config", "f", VERBATIM_DEVICE="of_variable").stdout
        self.assertRegex(shown, r"device +of_variable +VERBATIM_DEVICE\n")
        self.assertRegex(shown, rf"address +{LAB.address('a')} +{LAB.folder}/config/f.conf:1\n")
        self.assertIn("of_option", run_on("f", "ibv_devices", options=("--device", "of_option")))

    def test_a_change_waits_until_the_node_begins_anew(self):
        write("f", address() + "device = first\n")
        held = subprocess.Popen([f"{LAB.build}/bin/verbatim", "run", "--node", "f", "--", "sleep", "60"],
                                env=LAB.environment())
        try:
            wait_until(lambda: "first" in verbatim("run", "--node", "f", "--", "ibv_devices").stdout, 10, "the node")
            write("f", address() + "device = second\nmax_qp = 5\n")
            self.assertIn("first", run_on("f", "ibv_devices"))
            self.assertIn("The node runs with other values until its last program has left: device first, max_qp 16383",
                          verbatim("config", "f").stdout)
            refused = verbatim("run", "--node", "f", "--device", "third", "--", "ibv_devinfo")
            self.assertIn("node 'f' runs already, with device first (asked for: third)", refused.stderr)
        finally:
            held.kill()
            held.wait()
        gone_all()
        self.assertIn("second", run_on("f", "ibv_devices"))

    def test_a_fault_is_told_to_the_program(self):
        path = write("f", "\nadress = 127.0.0.1\n")
        done = verbatim("run", "--node", "f", "--", "ibv_devinfo")
        self.assertIn(f"{path}:2: there is no key 'adress': did you mean 'address'?", done.stderr)
        self.assertNotEqual(done.returncode, 0)

    def test_rules_name_the_device(self):
        write("f", address() + "device = NAME_GUID\nnode_guid = 0200:0000:0000:00bb\n")
        self.assertIn("rocex02000000000000bb", run_on("f", "ibv_devices"))

    def test_an_interface_gives_the_address(self):
        write("f", "interface = lo\n")
        self.assertIn("127.0.0.1", run_on("f", "ibv_devinfo", "-v"))
        gone_all()
        write("f", "interface = lo7\n")
        done = verbatim("run", "--node", "f", "--", "ibv_devinfo")
        self.assertIn("has no interface lo7", done.stderr)


class OneRightAfterTheOther(unittest.TestCase):
    """A program gets what it asks for, or the default, though another has ended a moment ago."""

    # Options, and what ibv_devinfo then says.
    NODES = (((), ("verbatim0", "InfiniBand", "16383")), (("--profile", "tiny"), ("verbatim0", "InfiniBand", "8")),
             (("--device", "mlx5_7"), ("mlx5_7", "InfiniBand", "16383")),
             (("--protocol", "iwarp"), ("verbatim0", "iWARP", "16383")))

    def seen(self, node, *options):
        said = run_on(node, "ibv_devinfo", "-v", options=options)
        return tuple(re.search(rf"{name}:\s+(\w+)", said)[1] for name in ("hca_id", "transport", "max_qp"))

    def test_each_pair_of_nodes(self):
        address = ("--address", LAB.address("a"))
        for first, _ in self.NODES:
            for second, expected in self.NODES:
                run_on("pair", "ibv_devinfo", options=(*address, *first))
                self.assertEqual(self.seen("pair", *address, *second), expected, (first, second))

    def test_two_nodes_at_one_address_and_one_node_at_two(self):
        for node, address in (("x", "a"), ("y", "a"), ("y", "b"), ("x", "b"), ("x", "a")):
            self.assertIn(f"::ffff:{LAB.address(address)}",
                          run_on(node, "ibv_devinfo", "-v", options=("--address", LAB.address(address))))

    def test_a_program_that_gets_none_says_why(self):
        held = LAB.start("a", ["sleep", "60"])
        wait_until(lambda: "a" in verbatim("status", "--names").stdout.split(), 10, "the node")
        for options in (("--node", "a", "--profile", "tiny"), ("--node", "other", "--address", LAB.address("a"))):
            done = verbatim("run", *options, "--", "ibv_devices")
            self.assertRegex(done.stderr, "node 'a'")
        held.kill()


class Check(unittest.TestCase):
    def test_every_fault_has_its_line(self):
        path = write("c", "device = a/b\n\nmax_qp = 0\nroce\n")
        done = verbatim("config", "--check", path)
        self.assertEqual(done.returncode, 1)
        self.assertEqual([line.split(": ")[0] for line in done.stderr.splitlines()],
                         [f"{path}:1", f"{path}:3", f"{path}:4"])

    def test_a_good_file(self):
        path = write("c", "device = mlx5_0\n# comment\nprofile = tiny\n")
        done = verbatim("config", "--check", path)
        self.assertEqual((done.returncode, done.stdout), (0, f"{path}: 2 keys, all as they should be\n"))

    def test_no_file(self):
        done = verbatim("config", "--check", f"{LAB.folder}/none.conf")
        self.assertEqual(done.returncode, 1)
        self.assertIn("there is no such file", done.stderr)

    def test_without_files_all_is_default(self):
        done = verbatim("config", "none")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"max_qp +16383 +profile verbatim\n")
        self.assertIn(f"None of these files exists: {LAB.folder}/config/none.conf", done.stdout)


class Limits(unittest.TestCase):
    PROGRAM = "device_limits"

    def setUp(self):
        gone_all()

    def limits(self, *arguments, options=()):
        output = run_on("l", f"{LAB.build}/bin/{self.PROGRAM}", *arguments,
                        options=(*options, "--address", LAB.address("a")))
        self.assertIn("every limit holds", output)

    def test_tiny(self):
        self.limits("32", "counts", options=("--profile", "tiny"))

    def test_single_limits(self):
        write("l", "max_qp = 3\nmax_cq = 4\nmax_mr = 5\nmax_mw = 6\nmax_pd = 7\nmax_srq = 1\nmax_ah = 2\n"
              "max_qp_wr = 100\nmax_sge = 5\nmax_inline_data = 77\nmax_cqe = 1000\nmax_srq_wr = 99\nmax_srq_sge = 3\n"
              "max_qp_rd_atom = 7\nmax_qp_init_rd_atom = 9\nmax_mtu = 512\natomic = global\n")
        try:
            self.limits("77", "counts")
        finally:
            os.remove(f"{LAB.folder}/config/l.conf")

    def test_cards(self):
        self.limits("988", options=("--profile", "connectx-7"))
        gone_all()
        self.limits("512", options=("--profile", "rxe"))

    def test_a_card_is_shown_as_itself(self):
        shown = run_on("l", "ibv_devinfo", "-v", options=("--profile", "connectx-7", "--address", LAB.address("a")))
        for line in (r"fw_ver:\s+28\.39\.2048", r"vendor_id:\s+0x02c9", r"vendor_part_id:\s+4129", r"max_sge:\s+30",
                     r"max_qp_rd_atom:\s+16", r"max_srq_wr:\s+32767", r"max_qp_wr:\s+32768"):
            self.assertRegex(shown, line)

    def test_pairs_of_small_devices_connect(self):
        """rdma_cm asks for no more READs than the device supports."""
        write("l", address() + "profile = tiny\n")
        try:
            server = subprocess.Popen([f"{LAB.build}/bin/verbatim", "run", "--node", "l", "--", "rping", "-s", "-a",
                                       LAB.address("a"), "-C", "3"], env=LAB.environment(), stderr=subprocess.STDOUT,
                                      stdout=subprocess.PIPE, text=True)
            done = None
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline and (done is None or done.returncode != 0):
                done = verbatim("run", "--node", "l", "--", "rping", "-c", "-a", LAB.address("a"), "-C", "3")
            output = server.communicate(timeout=20)[0]
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr + output)
        finally:
            os.remove(f"{LAB.folder}/config/l.conf")


class Memlock(unittest.TestCase):
    """RLIMIT_MEMLOCK of 64 KiB, without CAP_IPC_LOCK."""
    LIMITED = ("prlimit", "--memlock=65536:65536", "setpriv", "--bounding-set", "-ipc_lock", "--inh-caps", "-ipc_lock",
               "--")

    def setUp(self):
        gone_all()

    def registered(self, memlock, prefix=LIMITED, kib=16):
        write("m", address() + f"memlock = {memlock}\n")
        done = verbatim("run", "--node", "m", "--", f"{LAB.build}/bin/locked_memory", str(kib), "10", prefix=prefix)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def test_overlapping_regions_count_each(self):
        done = self.registered("yes")
        self.assertEqual(done.stdout, "4 regions, full\nand again\n")
        self.assertIn("ulimit -l", done.stderr)
        self.assertIn("16 KiB more than the 64 KiB", done.stderr)

    def test_off_by_default(self):
        self.assertEqual(self.registered("no").stdout, "10 regions, all\n")

    @unittest.skipIf(os.geteuid() != 0, "needs CAP_IPC_LOCK")
    def test_a_capability_exempts(self):
        self.assertEqual(self.registered("yes", prefix=self.LIMITED[:2]).stdout, "10 regions, all\n")


class Stay(unittest.TestCase):
    """verbatimd, started as by systemd."""

    def test_it_tells_systemd_and_stays_without_programs(self):
        gone_all()
        path = f"{LAB.folder}/notify"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            told.bind(path)
            told.settimeout(10)
            command = [f"{LAB.build}/bin/verbatimd", "--node", "s", "--address", LAB.address("a"), "--stay"]
            with subprocess.Popen(command, env=LAB.environment() | {"NOTIFY_SOCKET": path}) as agent:
                try:
                    self.assertEqual(told.recv(100), b"READY=1")
                    self.assertIn("PORT_ACTIVE", run_on("s", "ibv_devinfo"))
                    with self.assertRaises(subprocess.TimeoutExpired):
                        agent.wait(1)  # Twice as long as an agent waits that is not told to stay.
                    self.assertIn(f"process {agent.pid} ", verbatim("status").stdout)
                finally:
                    agent.terminate()
                self.assertEqual(agent.wait(10), 0)


def gone_all():
    """Waits until no agent runs, because each test's nodes must begin again. Requests to the agents would keep
    them."""
    def is_agents(name):
        return name.endswith(".sock") or name.startswith("claim-")

    wait_until(lambda: not any(is_agents(name) for _, _, names in os.walk(LAB.folder) for name in names), 10,
               "the agents to leave, and their addresses to be free")


def main():
    global LAB
    options = option_parser(__doc__).parse_args()
    with Testbed(options) as LAB:
        program = unittest.main(argv=sys.argv[:1], exit=False, verbosity=2)
    return 0 if program.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
