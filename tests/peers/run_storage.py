#!/usr/bin/env python3
"""`verbatim target` with Linux's nvme-rdma as its host and ib_srp as its initiator, which run in a guest under QEMU:
discovery, a file system that is the same after it was mounted again, random writes that are verified, and a target that
is killed under load."""

import json
import os
import signal
import subprocess
import sys

import guest as peer
import storage_srp
from testbed import Failure, Testbed, are_installed, option_parser, wait_until

NODE, PORT = "host", 4420
NQN, HOST, STRANGER = "nqn.2026-01.test:disk", "nqn.2026-01.test:host", "nqn.2026-01.test:stranger"
PROTOCOLS = {"rxe": "roce", "siw": "iwarp"}
DISK = "/dev/nvme0n1"
PLACE = f"-t rdma -a {peer.OUR_ADDRESS} -s {PORT}"
FIO = "fio --name=disk --direct=1 --ioengine=libaio --iodepth=16 --bs=4k --rw=randwrite"
CONNECT = (f"nvme connect {PLACE} -n {NQN} -q {{host}} -i 2 -Q 32 --reconnect-delay=1 --ctrl-loss-tmo=120 && "
           f"until [ -b {DISK} ]; do usleep 50000; done")


WORDS = ("--nvme", NQN, "--ram", "64M", "--listen", f"{peer.OUR_ADDRESS}:{PORT}", "--allow-host", HOST)


class Target:
    def __init__(self, testbed, protocol, words):
        self.testbed = testbed
        self.words = words
        testbed.set_addresses(NODE, peer.OUR_ADDRESS)
        variables = {"VERBATIM_PROTOCOL": protocol, "HOME": testbed.folder, "XDG_CONFIG_HOME": testbed.folder}
        testbed.set_variables(NODE, **variables)
        self.environment = testbed.environment() | variables

    def verbatim(self, *words):
        done = subprocess.run([f"{self.testbed.build}/bin/verbatim", "target", *words], env=self.environment,
                              check=False, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise Failure(f"verbatim target {' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def up(self):
        self.verbatim("up", "--node", NODE, "--address", peer.OUR_ADDRESS, *self.words)

    def down(self):
        """Hides no failure of what was before."""
        subprocess.run([f"{self.testbed.build}/bin/verbatim", "target", "down", "--node", NODE], env=self.environment,
                       check=False, timeout=60)

    def start(self, program, *words):
        """A program of the tests on the target's node."""
        return self.testbed.start(NODE, [f"{self.testbed.build}/bin/{program}", *words])

    def start_on_node(self, *words):
        return self.testbed.start(NODE, list(words))

    def show(self):
        return json.loads(self.verbatim("show", "--node", NODE, "--json"))

    def kill(self):
        """Until it has gone, it has the name of the target."""
        process = self.show()["process"]
        os.kill(process, signal.SIGKILL)
        wait_until(lambda: not os.path.exists(f"/proc/{process}"), 60, "the killed target to be gone")

    def is_empty(self):
        return self.show()["connections"] == 0


def refuses_a_stranger(guest, target):
    if NQN in guest.run(f"nvme discover {PLACE} -q {STRANGER}"):
        raise Failure("a stranger sees what it may not have")
    guest.run(f"! ( {CONNECT.format(host=STRANGER)} )")
    wait_until(target.is_empty, 60, "the stranger's connections to end")


def is_discovered_and_connected(guest, _):
    if NQN not in guest.run(f"nvme discover {PLACE} -q {HOST}"):
        raise Failure("the host does not see its disk")
    guest.run(CONNECT.format(host=HOST))
    guest.run(f"nvme id-ctrl {DISK} && nvme id-ns {DISK} && nvme smart-log {DISK}")


def keeps_a_file_system(guest, _):
    guest.run(f"mkfs.ext4 -q {DISK} && mkdir /mnt && mount -t ext4 {DISK} /mnt", 120)
    guest.run("dd if=/dev/urandom of=/tmp/file bs=1M count=16 && cp /tmp/file /mnt/file && umount /mnt", 120)
    guest.run(f"mount -t ext4 {DISK} /mnt && cmp /tmp/file /mnt/file && umount /mnt", 120)


def verifies_random_writes(guest, _):
    guest.run(f"{FIO} --filename={DISK} --size=16M --verify=crc32c", 300)
    guest.run(f"{FIO} --filename={DISK} --size=16M --bsrange=512-128k --verify=crc32c", 300)


def can_be_reserved(guest, _):
    """By raw commands on the kernel's connection; the holder goes on writing."""
    refused = "{ %s; } 2>&1 | grep -q 'Reservation Conflict'"
    def resv(command, *words):
        return f"nvme resv-{command} {DISK} -n 1 {' '.join(words)}"
    guest.run(resv("register", "--nrkey=0x11", "--rrega=0"))
    guest.run(refused % resv("acquire", "--crkey=0x12", "--rtype=1", "--racqa=0"))
    guest.run(resv("acquire", "--crkey=0x11", "--rtype=1", "--racqa=0"))
    report = json.loads(guest.run(resv("report", "--eds", "-o json")))
    if (report["gen"], report["rtype"], report["regctl"], report["regctlext"][0]["rkey"]) != (1, 1, 1, 0x11):
        raise Failure(f"the report has {report}")
    guest.run(f"dd if=/dev/urandom of={DISK} oflag=direct bs=64k count=16")
    guest.run(refused % resv("release", "--crkey=0x11", "--rtype=3", "--rrela=0"))
    guest.run(resv("release", "--crkey=0x11", "--rtype=1", "--rrela=0"))
    guest.run(resv("register", "--crkey=0x11", "--rrega=1"))


def is_killed_under_load(guest, target):
    """The host connects again, sends what was not answered, and goes on. The memory of the disk was lost."""
    load = guest.start(f"{FIO} --filename={DISK} --size=32M --time_based --runtime=8")
    wait_until(lambda: load.output() or load.status() is not None, 60, "the load")
    target.kill()
    target.up()
    load.expect_success(120)
    guest.run(f"{FIO} --filename={DISK} --size=8M --verify=crc32c", 300)


def is_left(guest, target):
    guest.run(f"nvme disconnect -n {NQN}")
    wait_until(target.is_empty, 60, "the host to leave")


PARTS = (refuses_a_stranger, is_discovered_and_connected, keeps_a_file_system, verifies_random_writes,
         can_be_reserved, is_killed_under_load, is_left)


def run_parts(guest, target, protocol, parts):
    target.up()
    try:
        for part in parts:
            part(guest, target)
            print(f"passed: {protocol} {part.__name__}", flush=True)
    finally:
        target.down()


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--stack", default="rxe", choices=peer.STACKS, help="Linux's")
    parser.add_argument("--only", choices=("nvme", "srp", "srpt"), help="one protocol")
    options = parser.parse_args()
    system = os.path.join(options.build, "guest")
    peer.enter_network(system)
    options.path = "wire"
    with Testbed(options) as testbed:
        with peer.Guest(testbed.folder, system, options.stack) as guest:
            print(f"hosts: nvme-rdma and ib_srp over {options.stack} of Linux {guest.version}", flush=True)
            guest.run(f"modprobe nvme_rdma && modprobe ext4 && {storage_srp.MODULES}")
            if options.only in (None, "nvme"):
                run_parts(guest, Target(testbed, PROTOCOLS[options.stack], WORDS), "nvme", PARTS)
            if options.only in (None, "srp"):
                words = storage_srp.words(storage_srp.initiator_of(guest))
                run_parts(guest, Target(testbed, PROTOCOLS[options.stack], words), "srp",
                          storage_srp.parts(options.stack))
            if options.only in (None, "srpt") and are_installed("targetcli"):
                run_parts(guest, Target(testbed, PROTOCOLS[options.stack], ()), "srpt",
                          (storage_srp.mounts_what_targetcli_made,))
    return 0


if __name__ == "__main__":
    sys.exit(main())
