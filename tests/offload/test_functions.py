#!/usr/bin/env python3
"""Nodes on functions that are rings of memory, through a card whose driver (`cable.cpp`) joins two of them: Debian's own
programs, content that is compared, neighbours of the kernel, and processes that are killed. As an ordinary user in
namespaces."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SKIPPED = 77
BUILD = None
PATIENCE = 60
A, B, TAP = "10.9.0.1", "10.9.0.2", "10.9.0.3"


def verbatim(*words, **more):
    return subprocess.run([f"{BUILD}/bin/verbatim", *words], text=True, check=False, capture_output=True,
                          timeout=PATIENCE, **more)


def until(condition, words):
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(words() if callable(words) else words)
        time.sleep(0.05)


def listens(port):
    told = subprocess.run(["ss", "-lntH", f"sport = :{port}"], text=True, check=True, capture_output=True).stdout
    return bool(told)


class Functions(unittest.TestCase):
    """vf0 and vf1 are rings, and joined; so are vf2, which is rings, and vf3, a TAP interface."""

    def setUp(self):
        self.cable = None
        self.started = []
        self.up()

    def up(self):
        up = verbatim("nic", "up", "--vfs", "4", "--rings", "vf0,vf1,vf2", "--prefix", "t")
        self.assertEqual((up.returncode, up.stderr), (0, ""))
        socket = self.card()["socket"]
        self.cable = subprocess.Popen([f"{BUILD}/bin/offload_cable", socket, "1", "2", "3", "4"], text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.assertEqual(self.cable.stdout.readline(), "ready\n")

    def tearDown(self):
        for process in self.started:
            process.kill()
            process.communicate()
        self.cable.communicate()
        verbatim("nic", "down")

    def card(self):
        return json.loads(verbatim("nic", "show", "--json").stdout)

    def rings(self, number):
        return self.card()["ports"][number + 1]["rings"]

    def node(self, name, *words, roce=None):
        """The words that run a program on node a (vf0) or b (vf1)."""
        function, address = {"a": ("vf0", A), "b": ("vf1", B)}[name]
        more = ["--roce", roce] if roce else []
        return [f"{BUILD}/bin/verbatim", "run", "--node", name, "--address", address, "--function", function, *more,
                "--", *words]

    def start(self, words):
        self.started.append(subprocess.Popen(words, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT))
        return self.started[-1]

    def run_pair(self, program, *to, port=18515, roce=None):
        server = self.start(self.node("b", *program, roce=roce))
        until(lambda: listens(port) or server.poll() is not None, f"{program} does not listen")
        client = subprocess.run(self.node("a", *program, *to, roce=roce), text=True, check=False, capture_output=True,
                                timeout=PATIENCE)
        told = server.communicate(timeout=PATIENCE)[0]
        self.assertEqual((client.returncode, server.returncode), (0, 0), client.stdout + client.stderr + told)
        return client.stdout

    def test_perftest(self):
        for program in (["ib_write_bw", "-n", "500"], ["ib_send_lat", "-n", "200"], ["ib_read_bw", "-n", "200"],
                        ["ib_send_bw", "-c", "UD", "-n", "200"], ["ib_atomic_lat", "-n", "50"]):
            told = self.run_pair([*program, "-x", "1"], "127.0.0.1")
            self.assertRegex(told, r"\n +(65536|2|4096|8) +\d+ ", program)
        self.assertGreater(self.offloaded(1), 500)

    def offloaded(self, port):
        return json.loads(verbatim("nic", "stats", "--json").stdout)["ports"][port]["offloaded_packets"]

    def test_content_is_compared(self):
        for roce in ("v2", "v1"):
            for program in ("ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong"):
                with self.subTest(program=program, roce=roce):
                    words = [program, "-g", "1", "-n", "200", *(["-c"] if program != "ibv_srq_pingpong" else [])]
                    self.run_pair(words, "127.0.0.1", roce=roce)

    def test_rdma_cm(self):
        server = self.start(self.node("b", "rping", "-s", "-a", B, "-C", "20", "-V"))
        until(lambda: '"listens": true' in verbatim("status", "--json").stdout or server.poll() is not None,
              "rping does not listen")
        client = subprocess.run(self.node("a", "rping", "-c", "-a", B, "-C", "20", "-V"), text=True, check=False,
                                capture_output=True, timeout=PATIENCE)
        told = server.communicate(timeout=PATIENCE)[0]
        self.assertEqual((client.returncode, server.returncode), (0, 0), client.stdout + client.stderr + told)

    def test_programs_of_one_node(self):
        for roce in ("v2", "v1"):
            words = self.node("a", f"{BUILD}/bin/every_opcode", roce=roce)
            done = subprocess.run([*words[:2], "--path", "wire", *words[2:]], text=True, check=False,
                                  capture_output=True, timeout=PATIENCE)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_kernel_is_a_neighbour(self):
        """A TAP function's kernel asks for the node, and the node for it: IPv4 and IPv6."""
        for words in (["addr", "add", f"{TAP}/24", "dev", "tvf3"], ["addr", "add", "fd09::3/64", "dev", "tvf3", "nodad"],
                      ["link", "set", "tvf3", "up", "mtu", "4500"]):
            subprocess.run(["ip", *words], check=True)
        ring = [f"{BUILD}/bin/verbatim", "run", "--node", "c", "--address", f"{B},fd09::2", "--function", "vf2", "--"]
        tap = [f"{BUILD}/bin/verbatim", "run", "--node", "d", "--address", f"{TAP},fd09::3", "--"]
        for gid in ("1", "2"):
            with self.subTest(gid=gid):
                server = self.start([*tap, "ib_write_bw", "-n", "200", "-x", gid])
                until(lambda: listens(18515), "ib_write_bw does not listen")
                client = subprocess.run([*ring, "ib_write_bw", "-n", "200", "-x", gid, "127.0.0.1"], text=True,
                                        check=False, capture_output=True, timeout=PATIENCE)
                told = server.communicate(timeout=PATIENCE)[0]
                self.assertEqual((client.returncode, server.returncode), (0, 0), client.stdout + client.stderr + told)

    def test_the_link_ends_with_the_last_client(self):
        self.assertEqual(self.rings(0), {"clients": 0, "faults": 0, "link": False})
        holder = self.start(self.node("a", "sh", "-c", "ibv_devinfo >/dev/null && echo up && exec sleep 100"))
        self.assertEqual(holder.stdout.readline(), "up\n")
        self.assertTrue(self.rings(0)["link"])
        holder.kill()
        until(lambda: not self.rings(0)["link"], "the link stays up")

    def test_a_next_card_goes_on(self):
        words = ["ib_write_bw", "-x", "1", "-D", "6", "--report_gbits"]
        server = self.start(self.node("b", *words))
        until(lambda: listens(18515), "it does not listen")
        client = self.start(self.node("a", *words, "127.0.0.1"))
        until(lambda: self.offloaded(1) > 100, "nothing flows")
        os.kill(self.card()["process"], signal.SIGKILL)
        self.cable.communicate()
        self.up()
        until(lambda: self.offloaded(1) > 100, "nothing flows through the next card")
        for process in (client, server):
            told = process.communicate(timeout=PATIENCE)[0]
            self.assertEqual(process.returncode, 0, told)

    def test_refusals_say_what_to_do(self):
        for function, sentence in (("vf3", "verbatim nic up --rings vf3"), ("vf9", "no function vf9"),
                                   ("other/vf0", "nic 'other'"), ("x", "is no function of a card")):
            words = self.node("a", "ibv_devinfo")
            words[words.index("vf0")] = function
            done = subprocess.run(words, text=True, check=False, capture_output=True, timeout=PATIENCE)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(sentence, done.stdout + done.stderr)

    def test_one_function_is_one_nodes(self):
        holder = self.start(self.node("a", "sh", "-c", "ibv_devinfo >/dev/null && echo up && exec sleep 100"))
        self.assertEqual(holder.stdout.readline(), "up\n")
        second = self.node("b", "ibv_devinfo")
        second[second.index("vf1")] = "vf0"
        done = subprocess.run(second, text=True, check=False, capture_output=True, timeout=PATIENCE)
        self.assertIn("another node's already", done.stdout + done.stderr)


def main():
    global BUILD
    BUILD = os.path.abspath(sys.argv[1])
    if os.environ.get("VERBATIM_TEST_INSIDE") != "1":
        unshare = ["unshare", "-Urnm", "--kill-child"]
        if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
            print("skipped: /dev/net/tun cannot be opened")
            return SKIPPED
        if subprocess.run([*unshare, "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
            print("skipped: no user namespaces")
            return SKIPPED
        os.environ["VERBATIM_TEST_INSIDE"] = "1"
        os.execvp("unshare", [*unshare, sys.executable, "-B", *sys.argv])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        result = unittest.main(argv=[sys.argv[0], *sys.argv[2:]], exit=False, verbosity=2).result
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
