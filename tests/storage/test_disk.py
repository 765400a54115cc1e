#!/usr/bin/env python3
"""`verbatim disk` at a target of ours: QEMU's programs, nbdcopy and fio have the disk; a target that is killed comes
back, and a cable; what was acknowledged is there; disks of 64 GiB have what was written; what is wrong is said."""

import json
import os
import select
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))

from served_disk import SECONDS, TOOLS, ServedDisk
from testbed import SKIPPED, Failure, Testbed, are_installed, option_parser

IQN, NQN, GUID = "iqn.2026-01.test:disk", "nqn.2026-01.test:disk", "505400fffe780002"
MEGABYTES = 32
CUT_SECONDS = 5


class Bench:
    """A target on node a."""

    def __init__(self, testbed, options):
        self.testbed, self.scheme, self.protocol = testbed, options.scheme, options.protocol
        self.has_cable = options.path == "wire" and options.protocol == "roce"
        for node in ("a", "b"):
            testbed.set_variables(node, VERBATIM_PROTOCOL=self.protocol)
        self.place = f"{testbed.address('a')}:{testbed.free_port()}"
        self.other_place = f"{testbed.address('a')}:{testbed.free_port()}"
        self.url = {"iser": f"iser://{self.place}/{IQN}/0", "nvme": f"nvme://{self.place}/{NQN}/1",
                    "srp": f"srp://id_ext={GUID},ioc_guid={GUID},dest={self.place}/0"}[self.scheme]

    def verbatim(self, *words):
        environment = self.testbed.environment() | {"VERBATIM_PROTOCOL": self.protocol}
        done = subprocess.run([f"{self.testbed.build}/bin/verbatim", *words], env=environment, check=False,
                              capture_output=True, text=True, timeout=SECONDS)
        if done.returncode != 0:
            raise Failure(f"verbatim {' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def up(self, *words, disk=("--ram", f"{MEGABYTES}M")):
        self.disk = disk
        names = ("--iscsi", IQN, "--iscsi-listen", self.place, "--listen", self.other_place)
        if self.scheme == "nvme":
            names = ("--nvme", NQN, "--listen", self.place)
        elif self.scheme == "srp":
            names = ("--srp", GUID + GUID, "--srp-listen", self.place, "--listen", self.other_place)
        everybody = ("--allow-any-initiator", "--allow-any-host", "--allow-any-srp-initiator")
        self.verbatim("target", "up", "--node", "a", "--address", self.testbed.address("a"), *disk, *names,
                      *everybody, *words)

    def down(self):
        self.verbatim("target", "down", "--node", "a")

    def process(self):
        return json.loads(self.verbatim("target", "show", "--node", "a", "--json"))["process"]

    def is_killed_and_back(self):
        process = os.pidfd_open(self.process())
        signal.pidfd_send_signal(process, signal.SIGKILL)
        select.select([process], [], [], SECONDS)  # Until it has ended.
        os.close(process)
        self.up(disk=self.disk)

    def is_cut_for_a_while(self):
        self.verbatim("fault", "a", "loss=100%")
        time.sleep(CUT_SECONDS)
        self.verbatim("fault", "a", "off")

    def empty_file(self, size):
        path = f"{self.testbed.folder}/disk"
        with open(path, "wb") as file:
            file.truncate(size)
        return path

    def served(self, *options):
        return ServedDisk(self.testbed, self.url, *options)

    def expect_refusal(self, url, words, *options):
        program = self.testbed.start("b", [f"{self.testbed.build}/bin/verbatim", "disk", url, *options])
        if program.wait(SECONDS) == 0 or words not in program.output():
            raise Failure(f"'{words}' is not in what {url} says:\n{program.output()}")


def serves_all_programs(bench):
    bench.up()
    with bench.served("--name", "one") as disk:
        disk.run("nbdinfo", "URI")
        disk.is_copied_both_ways(MEGABYTES << 20)
        disk.is_verified()
        disk.is_cleared()
        listed = json.loads(bench.verbatim("disk", "list", "--json"))
        if [one["uri"] for one in listed] != [disk.uri] or listed[0]["bytes"] != MEGABYTES << 20:
            raise Failure(f"list says {listed}")
        if bench.url not in bench.verbatim("disk", "list"):
            raise Failure("list does not name the disk")
        bench.expect_refusal(bench.url, "choose another --name", "--name", "one")
    if "No disk" not in bench.verbatim("disk", "list"):
        raise Failure("a disk that has ended is listed")
    with bench.served("--read-only") as disk:
        if "is_read_only: true" not in disk.run("nbdinfo", "URI"):
            raise Failure("it may be written")
    bench.down()


def outlives_its_target(bench):
    bench.up()
    with bench.served() as disk:
        disk.goes_on_over(bench.is_killed_and_back)
    bench.down()


def keeps_what_was_acknowledged(bench):
    """Its disk is a file, which outlives it."""
    bench.up(disk=("--file", bench.empty_file(MEGABYTES << 20)))
    with bench.served() as disk:
        disk.is_verified_over(bench.is_killed_and_back)
        if bench.has_cable:
            disk.is_verified_over(bench.is_cut_for_a_while)
    bench.down()


def resident(process):
    with open(f"/proc/{process}/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon"))


def has_no_more_than_was_written(bench):
    """Disks of 64 GiB, in memory and in a file: both ends are written, as mkfs does, and discarded."""
    path = bench.empty_file(64 << 30)
    rows = ((("--ram", "64G"), lambda: resident(bench.process())),
            (("--file", path), lambda: os.stat(path).st_blocks * 512))
    for words, used in rows:
        bench.up(disk=words)
        with bench.served() as disk:
            disk.qemu_io("read -P 0 0 1M")
            before = used()
            disk.qemu_io("write -P 7 0 1M", "write -P 9 65535M 1M", "read -P 7 0 1M", "read -P 0 32G 1M",
                         "read -P 9 65535M 1M", "flush")
            written = used() - before
            disk.qemu_io("discard 0 1G", "discard 63G 1G", "flush", "read -P 0 0 1M", "read -P 0 65535M 1M")
            left = used() - before
        bench.down()
        if not 2 << 20 <= written <= 64 << 20 or left > 1 << 20:
            raise Failure(f"{words}: {written} bytes are used after 2 MiB were written, {left} after the discard")


def says_what_is_wrong(bench):
    bench.expect_refusal("http://a", "is no disk: iser://HOST[:PORT]/IQN/LUN")
    if bench.scheme == "srp":
        bench.expect_refusal("srp://nonsense", "'nonsense' is no word of an SRP target")
    else:
        bench.expect_refusal(f"{bench.scheme}://{bench.place}", f"is not {bench.scheme}://HOST[:PORT]/")
        bench.expect_refusal(f"{bench.scheme}://{bench.place}/nonsense/1", "'nonsense' is no")
    bench.up()
    bench.expect_refusal(bench.url.replace(bench.place, f"{bench.place.split(':')[0]}:{bench.testbed.free_port()}"),
                         "listens")
    other = bench.url.replace("test:disk", "test:other").replace(f"id_ext={GUID}", "id_ext=0000000000000001")
    bench.expect_refusal(other, "it has no port" if bench.scheme == "srp" else "there is no such")
    bench.expect_refusal(bench.url[:-1] + "9", "has no")
    bench.down()


def authenticates(bench):
    secrets = f"{bench.testbed.folder}/secrets"
    with open(secrets, "w", encoding="ascii") as file:
        file.write("userid bob\npassword secretofbob12\n")
    wrong = f"{bench.testbed.folder}/wrong"
    with open(wrong, "w", encoding="ascii") as file:
        file.write("userid bob\npassword secretofeve12\n")
    bench.up("--iscsi-auth", secrets)
    bench.expect_refusal(bench.url, "authentication has failed")
    bench.expect_refusal(bench.url, "authentication has failed", "--auth", wrong)
    with bench.served("--auth", secrets) as disk:
        disk.qemu_io("write -P 7 0 64k", "read -P 7 0 64k")
    bench.down()


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--protocol", default="roce", choices=("roce", "iwarp"))
    parser.add_argument("--scheme", default="iser", choices=("iser", "nvme", "srp"))
    options = parser.parse_args()
    if not are_installed(*TOOLS) or not os.path.exists(f"{options.build}/lib/nbdkit-verbatim-plugin.so"):
        return SKIPPED
    parts = [serves_all_programs, outlives_its_target, keeps_what_was_acknowledged, has_no_more_than_was_written,
             says_what_is_wrong]
    if options.scheme == "iser":
        parts.append(authenticates)
    for part in parts:
        with Testbed(options) as testbed:
            part(Bench(testbed, options))
        print(f"passed: {part.__name__}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
