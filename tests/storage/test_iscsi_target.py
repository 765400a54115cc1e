#!/usr/bin/env python3
"""`verbatim target` with Debian's libiscsi and QEMU as initiators: iSER on a node's adapter, and iSCSI over TCP."""

import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))

from testbed import SKIPPED, Failure, Testbed, are_installed, option_parser, wait_until

IQN = "iqn.2026-01.test:disk"
INITIATOR, STRANGER = "iqn.2026-01.test:i1", "iqn.2026-01.test:i2"
SECRETS = {"userid": "bob", "password": "secretofbob12", "userid_mutual": "tgt", "password_mutual": "secretoftgt12"}
SECONDS = 60
# What Debian's iscsi-test-cu finds in a target's session; the blocks' commands are tested beside the code.
CONFORMANCE = ("iSCSIcmdsn", "iSCSIResiduals", "iSCSITMF", "TestUnitReady", "ReadCapacity16", "Write16",
               "CompareAndWrite", "ExtendedCopy", "PrinReadKeys", "PrinReportCapabilities", "PrinServiceactionRange",
               "ProutClear", "ProutPreempt", "ProutRegister", "ProutReserve", "Reserve6.Simple", "Reserve6.2Initiators")
DISK_BYTES = 32 << 20


class Bench:
    """A target on node a, initiators on node b."""

    def __init__(self, testbed, protocol):
        self.testbed = testbed
        for node in ("a", "b"):
            testbed.set_variables(node, VERBATIM_PROTOCOL=protocol)
        self.protocol = protocol
        self.place = f"{testbed.address('a')}:{testbed.free_port()}"

    def verbatim(self, *words):
        environment = self.testbed.environment() | {"VERBATIM_PROTOCOL": self.protocol}
        done = subprocess.run([f"{self.testbed.build}/bin/verbatim", "target", *words], env=environment, check=False,
                              capture_output=True, text=True, timeout=SECONDS)
        if done.returncode != 0:
            raise Failure(f"verbatim target {' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def up(self, *words, disk=("--ram", "32M")):
        self.verbatim("up", "--node", "a", "--address", self.testbed.address("a"), "--iscsi", IQN, *disk,
                      "--iscsi-listen", self.place, *words)

    def down(self):
        self.verbatim("down", "--node", "a")

    def show(self):
        return json.loads(self.verbatim("show", "--node", "a", "--json"))

    def has_tcp(self):
        """iWARP on the wire has taken the port, which is TCP's."""
        return "TCP" in self.show()["listens"]

    def carriers(self):
        return ("iser", "iscsi") if self.has_tcp() else ("iser",)

    def url(self, carrier, who=""):
        return f"{carrier}://{who}{self.place}/{IQN}/0"

    def run(self, *argv):
        """Returns the exit status and the output of an initiator."""
        program = self.testbed.start("b", list(argv))
        return program.wait(SECONDS), program.output()

    def expect(self, *argv, words=()):
        status, output = self.run(*argv)
        if status != 0 or any(word not in output for word in words):
            raise Failure(f"{' '.join(argv)}: status {status}, expected {words} in:\n{output}")

    def expect_failure(self, *argv):
        status, output = self.run(*argv)
        if status == 0:
            raise Failure(f"{' '.join(argv)} should have failed:\n{output}")

    def expect_incident(self, words):
        def is_there():
            return words in json.dumps(self.show()["incidents"])
        wait_until(is_there, SECONDS, f"an incident with '{words}'")

    def wait_until_empty(self):
        wait_until(lambda: self.show()["connections"] == 0, SECONDS, "the target to have no connection")


def is_a_disk_over_both(bench):
    """What is written over one carrier is read over the other."""
    bench.up("--allow-any-initiator")
    if bench.has_tcp():
        bench.expect("iscsi-ls", "-s", f"iscsi://{bench.place}", words=(IQN, "Lun:0"))
    for first, second in zip(bench.carriers(), reversed(bench.carriers())):
        bench.expect("iscsi-inq", bench.url(first), words=("VERBATIM", "DIRECT_ACCESS"))
        bench.expect("qemu-io", "-f", "raw", "-c", "write -P 7 0 256k", "-c", "write -P 3 512 4096", "-c",
                     "write -P 9 1048064 512", "-c", "flush", bench.url(first))
        bench.expect("qemu-io", "-f", "raw", "-c", "read -P 7 0 512", "-c", "read -P 3 512 4096", "-c",
                     "read -P 7 4608 250k", "-c", "read -P 9 1048064 512", "-c", "read -P 0 16M 64k", bench.url(second))
        bench.expect("qemu-io", "-f", "raw", "-c", "write -z 0 1M", "-c", "read -P 0 0 256k", bench.url(second))
    bench.wait_until_empty()
    bench.down()


def in_pieces(command, start, end):
    """Commands of qemu-io, each of 256 KiB: with longer ones libiscsi's iSER stands still, whatever the target."""
    piece = 256 << 10
    return [word for at in range(start, end, piece) for word in ("-c", f"{command} {at} {min(piece, end - at)}")]


def serves_a_file(bench):
    """Through the page cache and past it: what is written is in the file."""
    mebi = 1 << 20
    path = f"{bench.testbed.folder}/disk"
    with open(path, "wb") as file:
        file.truncate(DISK_BYTES)
    for fill, how in enumerate(((), ("--direct",)), 1):
        bench.up("--allow-any-initiator", disk=("--file", path, *how))
        url = bench.url(bench.carriers()[-1])
        bench.expect("qemu-io", "-f", "raw", *in_pieces(f"write -P {fill}", 0, 8 * mebi), "-c",
                     f"write -P {fill + 8} 512 1024", "-c", "discard 4M 1M", "-c", f"write -f -P {fill} 20M 512", url)
        bench.expect("qemu-io", "-f", "raw", "-c", f"read -P {fill} 0 512", "-c", f"read -P {fill + 8} 512 1024",
                     *in_pieces(f"read -P {fill}", 1536, 4 * mebi), *in_pieces("read -P 0", 4 * mebi, 5 * mebi),
                     *in_pieces("read -P 0", 24 * mebi, 25 * mebi), url)
        bench.wait_until_empty()
        bench.down()
        with open(path, "rb") as file:
            content = file.read()
        if len(content) != DISK_BYTES or content[600] != fill + 8 or content[20 << 20] != fill or content[5 << 20] != fill:
            raise Failure(f"the file has other bytes {how}")


def answers_libiscsis_suite(bench):
    bench.up("--allow-any-initiator")
    for suite in CONFORMANCE if bench.has_tcp() else ():
        bench.expect("iscsi-test-cu", "--dataloss", f"--test=ALL.{suite}", bench.url("iscsi"))
    bench.down()


def admits_whom_it_names(bench):
    bench.up("--allow-initiator", INITIATOR)
    for carrier in bench.carriers():
        bench.expect("iscsi-inq", "-i", INITIATOR, bench.url(carrier))
        bench.expect_failure("iscsi-inq", "-i", STRANGER, bench.url(carrier))
    bench.expect_incident(f"{STRANGER} is not admitted to target {IQN}")
    bench.wait_until_empty()
    bench.down()


def asks_for_secrets(bench):
    path = f"{bench.testbed.folder}/auth"
    with open(path, "w", encoding="ascii") as file:
        file.writelines(f"{key} {value}\n" for key, value in SECRETS.items())
    bench.up("--allow-any-initiator", "--iscsi-auth", path)
    # Over iSER libiscsi posts too short receives after the first answer; Linux's initiator is the judge there.
    if bench.has_tcp():
        bench.expect("iscsi-inq", bench.url("iscsi", "bob%secretofbob12@"))
        mutual = "?target_user=tgt&target_password=secretoftgt12"
        bench.expect("iscsi-inq", bench.url("iscsi", "bob%secretofbob12@") + mutual)
        bench.expect_failure("iscsi-inq", bench.url("iscsi", "bob%secretofeve12@"))
        bench.expect_incident("CHAP_R of user 'bob' is wrong")
    bench.expect_failure("iscsi-inq", bench.url("iser"))
    bench.expect_incident("skips authentication: CHAP is required")
    bench.wait_until_empty()
    bench.down()


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--protocol", default="roce", choices=("roce", "iwarp"))
    options = parser.parse_args()
    if not are_installed("iscsi-inq", "iscsi-test-cu", "qemu-io"):
        return SKIPPED
    with Testbed(options) as testbed:
        bench = Bench(testbed, options.protocol)
        try:
            for part in (is_a_disk_over_both, serves_a_file, answers_libiscsis_suite, admits_whom_it_names, asks_for_secrets):
                part(bench)
                print(f"passed: {part.__name__}", flush=True)
        finally:
            subprocess.run([f"{testbed.build}/bin/verbatim", "target", "down", "--node", "a"], check=False,
                           env=testbed.environment(), capture_output=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
