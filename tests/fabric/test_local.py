#!/usr/bin/env python3
"""Two programs of one host: what they exchange is executed in shared memory and crosses no cable. With
VERBATIM_PATH=wire it is packets, which the host turns round."""

import subprocess
import sys
import unittest

from fabricbed import CHAIN, FabricBed, HostsTestbed, run_tests

from test_rdmacm import PAIRS, run_pair
from testbed import SKIPPED, are_installed, option_parser, wait_until

OPTIONS, BED = None, None  # Set in main.
SECONDS_MAX = 60
HOST = "H1"
NODES = {"a": HOST, "b": HOST}
SIZE, COUNT = 65536, 200
SAID_FEW_BYTES = 1_000_000  # Of management datagrams and the programs that read the counters.
BULK = ("-F", "-s", str(SIZE), "-n", str(COUNT))
ON_BOTH_PATHS = (("ibv_rc_pingpong", "-c"), ("ibv_uc_pingpong", "-c"), ("ibv_ud_pingpong", "-c", "-s", "1024"),
                 ("ibv_srq_pingpong", "-c"), ("ib_write_bw", *BULK), ("ib_read_bw", *BULK), ("ib_send_bw", *BULK),
                 ("ib_write_bw", "-c", "XRC", *BULK), ("ib_send_bw", "-c", "XRC", *BULK), ("ib_atomic_bw", "-F", "-n", "1000"),
                 ("ib_write_lat", "-c", "UC", "-F"), ("ib_send_lat", "-c", "UD", "-F"), ("ib_send_lat", "-x", "0", "-F"),
                 ("ib_send_bw", "-e", *BULK))
OWN = {"every_opcode": (), "import_programs": (), "xrc_programs": (), "shared_posters": ()}


def on(path, *argv):
    return ("env", f"VERBATIM_PATH={path}", *argv)


def cable_bytes():
    """What has crossed the host's cable, in both directions."""
    return BED.bytes_sent("S1", 1) + BED.bytes_sent(HOST, 1)


class Local(unittest.TestCase):
    def setUp(self):
        self.crossed = cable_bytes()

    def tearDown(self):
        self.assertLess(cable_bytes() - self.crossed, SAID_FEW_BYTES)

    def packets(self, path):
        """The packets that the host's programs send and receive while one writes to the other."""
        server, command = BED.start_server(HOST, *on(path, "ib_write_bw", *BULK))
        file = f"{BED.folder}/{path}.pcapng"
        words = [f"{BED.build}/bin/verbatim", "capture", "-w", file, "--host", HOST, "--", *command]
        done = subprocess.run(words, env=BED.environment(), check=False, text=True, capture_output=True,
                              timeout=SECONDS_MAX)
        self.assertEqual((done.returncode, server.wait(SECONDS_MAX)), (0, 0), done)
        self.assertEqual("direct path" in done.stderr, path == "direct", done.stderr)
        read = subprocess.run(["tshark", "-r", file], check=True, text=True, capture_output=True)
        return len(read.stdout.splitlines())

    def test_programs_in_pairs(self):
        for argv in ON_BOTH_PATHS:
            for path in ("direct", "wire"):  # `direct` refuses packets.
                with self.subTest(path=path, argv=argv):
                    BED.run_pair(HOST, HOST, *on(path, *argv))

    def test_only_the_wire_has_packets(self):
        self.assertEqual(self.packets("direct"), 0)
        self.assertGreater(self.packets("wire"), 0)

    def test_direct_alone_reaches_no_other_host(self):
        server, command = BED.start_server("H2", "ib_write_bw", "-F")
        self.assertNotEqual(BED.start(HOST, *on("direct", *command)).wait(SECONDS_MAX), 0)
        BED.end(server)

    def test_every_operation(self):
        for program, arguments in OWN.items():
            with self.subTest(program):
                BED.run(HOST, f"{BED.build}/bin/{program}", *arguments)

    def test_rdma_cm(self):
        for address in (None, "127.0.0.1"):  # None: the host's own.
            with HostsTestbed(OPTIONS, BED, NODES) as testbed:
                if address:
                    testbed.set_addresses("a", address)
                for pair in PAIRS:
                    run_pair(testbed, *pair)

    def test_ack_time_outs_count_the_devices_delay(self):
        """The way has no length: both wait as long as the device may take."""
        address = BED.nodes()[HOST]["address"]
        said = BED.run(HOST, f"{BED.build}/bin/cm_timeout", address)
        delay, client, server = map(int, said.split())
        self.assertEqual((client, server), (delay, delay))

    def test_a_killed_program_ends_its_peer(self):
        for killed in (0, 1):
            with self.subTest(killed), HostsTestbed(OPTIONS, BED, NODES) as testbed:
                port = testbed.free_port()
                argv = ["ib_write_bw", "-F", "-D", "60", "-p", str(port)]
                server = testbed.start_server("a", argv, port)
                pair = (server, testbed.start("b", [*argv, "127.0.0.1"]))
                wait_until(lambda bed=testbed: any(program["direct"]["messages_received"] for program in bed.status("a")),
                           SECONDS_MAX, "data on the direct path")
                pair[killed].kill()
                self.assertNotEqual(pair[1 - killed].wait(SECONDS_MAX), 0)


    def test_nothing_passes_while_the_port_is_down(self):
        def have_data(testbed, path):
            def count(program):
                return program["direct"]["messages_received"] if path == "direct" else program["counters"]["packets_received"]
            return any(count(program) > COUNT for program in testbed.status("a"))
        for path in ("direct", "wire"):
            with self.subTest(path), HostsTestbed(OPTIONS, BED, NODES) as testbed:
                port = testbed.free_port()
                argv = [*on(path, "ib_write_bw", "-F", "-D", "60", "-u", "10", "-p", str(port))]
                server = testbed.start_server("a", argv, port)
                client = testbed.start("b", [*argv, "127.0.0.1"])
                wait_until(lambda bed=testbed, path=path: have_data(bed, path), SECONDS_MAX, "data")
                BED.verbatim("fabric", "link", f"{HOST}/1", "down")
                self.assertNotEqual(client.wait(SECONDS_MAX), 0)
                self.assertIn("Failed status 12", client.output())  # Retries exceeded.
                server.kill()
                BED.verbatim("fabric", "link", f"{HOST}/1", "up")
                BED.wait_until_active(HOST)


def main():
    global OPTIONS, BED
    OPTIONS = option_parser(__doc__).parse_args()
    if not are_installed("opensm", "perfquery", "tshark", "rping", "ibv_rc_pingpong", "ib_write_bw"):
        return SKIPPED
    with FabricBed(OPTIONS) as BED:
        BED.up(CHAIN)
        BED.start_manager("H2")  # Its own port stays up.
        BED.wait_until_active(HOST, "H2")
        run_tests()
    return 0


if __name__ == "__main__":
    sys.exit(main())
