#!/usr/bin/env python3
"""`verbatim nfs` with Linux's NFS over RDMA, which runs in a guest under QEMU. The guest mounts a server of this machine
through `verbatim nfs serve`: versions 4.0 to 4.2, and files that are compared, verified, and many."""

import os
import subprocess
import sys

import guest as peer

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "files"))

import nfs_server
from testbed import Failure, Testbed, option_parser, wait_until

NODE, PORT, SERVER_PORT = "host", 20049, 12049
PROTOCOLS = {"rxe": "roce", "siw": "iwarp"}
VERSIONS = ("4.2", "4.1", "4.0")
MOUNT = f"mount.nfs {peer.OUR_ADDRESS}:/data /mnt -o rdma,port={PORT},vers={{}},sec=sys"

class Gateway:
    def __init__(self, testbed, protocol):
        self.testbed = testbed
        self.environment = testbed.environment() | {"VERBATIM_PROTOCOL": protocol}

    def verbatim(self, *words):
        done = subprocess.run([f"{self.testbed.build}/bin/verbatim", "nfs", *words], env=self.environment,
                              check=False, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise Failure(f"verbatim nfs {' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def serve(self):
        self.verbatim("serve", "--node", NODE, "--address", peer.OUR_ADDRESS, "--to", f"127.0.0.1:{SERVER_PORT}",
                      "--listen", peer.OUR_ADDRESS)

    def down(self):
        print(self.verbatim("show", "--node", NODE), flush=True)
        self.verbatim("down", "--node", NODE)


def mounts_every_version(guest, server):
    for version in VERSIONS:
        guest.run(MOUNT.format(version))
        guest.run("grep 'proto=rdma' /proc/mounts && dd if=/dev/urandom of=/tmp/file bs=1M count=16 && "
                  "cp /tmp/file /mnt/file && umount /mnt", 120)
        guest.run(f"{MOUNT.format(version)} && cmp /tmp/file /mnt/file && umount /mnt", 120)
        print(f"passed: version {version}", flush=True)


def verifies_writes(guest, _):
    guest.run(MOUNT.format("4.2"))
    for size in ("4k", "64k", "1m"):
        guest.run(f"fio --name=f --directory=/mnt --size=32M --bs={size} --rw=randwrite --verify=crc32c --direct=1 "
                  "--ioengine=libaio --iodepth=8", 300)
    guest.run("umount /mnt")


def has_many_files(guest, _):
    guest.run(MOUNT.format("4.1"))
    guest.run("mkdir /mnt/many && cd /mnt/many && i=0 && while [ $i -lt 2000 ]; do echo $i >$i; i=$((i+1)); done && "
              "[ $(ls | wc -l) = 2000 ] && cat 1999 | grep 1999 && rm -r /mnt/many", 300)
    guest.run("umount /mnt")


PARTS = (mounts_every_version, verifies_writes, has_many_files)


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--stack", default="rxe", choices=peer.STACKS, help="Linux's")
    options = parser.parse_args()
    if why := nfs_server.why_not():
        peer.skip(why)
    system = os.path.join(options.build, "guest")
    peer.enter_network(system)
    options.path = "wire"
    with Testbed(options) as testbed:
        gateway = Gateway(testbed, PROTOCOLS[options.stack])
        server = nfs_server.NfsServer(testbed.folder, SERVER_PORT)
        with peer.Guest(testbed.folder, system, options.stack) as guest:
            print(f"client: NFS over {options.stack} of Linux {guest.version}", flush=True)
            guest.run("echo /bin/modprobe >/proc/sys/kernel/modprobe; command -v mount.nfs && modprobe rpcrdma && modprobe nfsv4 && mkdir /mnt")
            gateway.serve()
            try:
                for part in PARTS:
                    part(guest, server)
                    print(f"passed: {part.__name__}", flush=True)
            finally:
                gateway.down()
                server.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
