#!/usr/bin/env python3
"""`verbatim nfs` with Linux's NFS over RDMA, which runs in a guest under QEMU. The guest mounts a folder of this machine
through `verbatim nfs serve`: versions 4.0 to 4.2, files that are compared and verified, and what people do on a mount
(nfs_work.py). Then this machine reaches the guest's server through `verbatim nfs client`; version 3 goes both ways."""

import json
import os
import signal
import subprocess
import sys
import time

import guest as peer
import nfs_work
from testbed import Failure, Testbed, are_installed, option_parser, wait_until

NODE, PORT, CLIENT_PORT = "host", 20049, 12050
PROTOCOLS = {"rxe": "roce", "siw": "iwarp"}
PLACE = ("--node", NODE, "--address", peer.OUR_ADDRESS, "--address", peer.OUR_ADDRESS_6)
VERSIONS = ("4.2", "4.1", "4.0")
FIO = ("fio --name=f --directory=/mnt --size={1} --rw=randwrite --verify=crc32c --direct=1 --ioengine=libaio "
       "--iodepth=8 --bs={0}")
# What Linux's NFS server needs of a system. Without versions 2 and 3 it needs no rpcbind.
KERNEL_SERVER = """
mkdir -p /srv /var/lib/nfs/v4recovery /var/lib/nfs/rpc_pipefs /run/rpcbind && mount -t tmpfs tmpfs /srv &&
mount -t nfsd nfsd /proc/fs/nfsd && mount -t rpc_pipefs rpc_pipefs /var/lib/nfs/rpc_pipefs &&
echo '/srv *(rw,insecure,no_root_squash,fsid=0,no_subtree_check)' >/etc/exports && echo nfsd >/etc/services &&
printf 'hosts: files\nservices: files\nprotocols: files\nnetgroup: files\npasswd: files\ngroup: files\n' >/etc/nsswitch.conf &&
printf 'udp 17 UDP\ntcp 6 TCP\n' >/etc/protocols && touch /var/lib/nfs/etab /var/lib/nfs/rmtab && exportfs -r &&
( rpc.mountd -N 2 -N 3 -F >/tmp/mountd.log 2>&1 & ) &&
echo 10 >/proc/fs/nfsd/nfsv4gracetime && echo 10 >/proc/fs/nfsd/nfsv4leasetime &&
echo '-2 -3 +4 +4.1 +4.2' >/proc/fs/nfsd/versions && echo 'rdma 20049' >/proc/fs/nfsd/portlist &&
echo 4 >/proc/fs/nfsd/threads
"""

# rpcbind runs with this machine's files; the kernel and rpc.mountd look for it in the guest's own.
RPCBIND = """cp /machine/etc/netconfig /machine/etc/rpc /etc/ && ln -sf /machine/run/rpcbind.sock /run/rpcbind.sock &&
until [ -S /run/rpcbind.sock ]; do usleep 50000; done
"""
MOUNT_PORT = 20048
KERNEL_SERVER_3 = f"""
echo '/srv *(rw,insecure,no_root_squash,fsid=0,no_subtree_check)' >/etc/exports && exportfs -r &&
( rpc.mountd -N 2 -p {MOUNT_PORT} -F >/tmp/mountd.log 2>&1 & ) &&
echo '-2 +3 +4 +4.1 +4.2' >/proc/fs/nfsd/versions && echo 'tcp 2049' >/proc/fs/nfsd/portlist &&
echo 'rdma 20049' >/proc/fs/nfsd/portlist && echo 4 >/proc/fs/nfsd/threads
"""


class Gateways:
    """Of one node: for a folder of this machine, and before the guest's server."""

    def __init__(self, testbed, protocol, options):
        self.testbed = testbed
        self.files, self.megabytes = options.files, options.megabytes
        self.environment = testbed.environment() | {"VERBATIM_PROTOCOL": protocol}
        self.data = os.path.join(testbed.folder, "data")
        os.mkdir(self.data)

    def verbatim(self, *words):
        done = subprocess.run([f"{self.testbed.build}/bin/verbatim", "nfs", *words], env=self.environment,
                              check=False, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise Failure(f"verbatim nfs {' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def serve(self):
        self.verbatim("serve", self.data, *PLACE)

    def serve_again(self, *what):
        """Another server."""
        self.verbatim("down", *PLACE[:2])
        self.verbatim("serve", *(what or (self.data,)), *PLACE)

    def client(self):
        self.verbatim("client", peer.ADDRESS, *PLACE, "--listen", f"{peer.OUR_ADDRESS}:{CLIENT_PORT}")

    def kill(self, what):
        """The gateway, or the server, which is a child of its."""
        for one in json.loads(self.verbatim("show", "--node", NODE, "--json")):
            if one["kind"] == "nfs-serve":
                subprocess.run(["pkill", "-KILL", "-P", str(one["process"])], check=True)
                if what == "gateway":
                    os.kill(one["process"], signal.SIGKILL)
                    wait_until(lambda: not os.path.exists(f"/proc/{one['process']}"), 60, "the gateway to end")

    def down(self):
        print(self.verbatim("show", "--node", NODE), flush=True)
        self.verbatim("down", "--node", NODE)


def mount(guest, version):
    guest.run(f"mount.nfs {peer.OUR_ADDRESS}:/ /mnt -o rdma,port={PORT},vers={version},sec=sys && "
              "grep proto=rdma /proc/mounts")


def mounts_every_version(guest, _):
    for version in VERSIONS:
        mount(guest, version)
        guest.run("dd if=/dev/urandom of=/tmp/file bs=1M count=16 && cp /tmp/file /mnt/file && umount /mnt", 120)
        mount(guest, version)
        guest.run("cmp /tmp/file /mnt/file && umount /mnt", 120)
        print(f"passed: version {version}", flush=True)


def serves_version_3(guest, gateways):
    """The guest's server over TCP behind our gateway, with what it needs of a system for version 3; then over RDMA."""
    guest.run("umount /proc/fs/nfsd; killall rpc.mountd; mount -t nfsd nfsd /proc/fs/nfsd; echo 0 >/proc/fs/nfsd/threads")
    guest.start_here("rpcbind -f")
    guest.run(RPCBIND)
    guest.run(KERNEL_SERVER_3)
    gateways.serve_again("--to", peer.ADDRESS)
    gateways.client()
    options = f"vers=3,sec=sys,nolock,mountproto=tcp,mounthost={peer.ADDRESS},mountport={MOUNT_PORT}"
    for way in (f"rdma,port={PORT}", f"tcp,port={CLIENT_PORT}"):
        guest.run(f"mount.nfs {peer.OUR_ADDRESS}:/srv /mnt -o {way},{options} && grep vers=3 /proc/mounts")
        guest.run("cmp /mnt/data/file /srv/data/file && cp /srv/data/file /mnt/data/copy3 && ls -l /mnt/data && sync && "
                  "ln -s file /mnt/data/link && [ $(readlink /mnt/data/link) = file ] && rm /mnt/data/link", 200)
        guest.run(FIO.format("64k", "8M").replace("/mnt", "/mnt/data"), 200)
        guest.run("umount /mnt && cmp /srv/data/copy3 /srv/data/file && rm /srv/data/copy3")
        print(f"passed: version 3 by {way}", flush=True)
    gateways.serve_again()


def verifies_writes(guest, _):
    mount(guest, "4.2")
    for size, bytes_ in (("4k", "8M"), ("64k", "32M"), ("1m", "32M")):
        guest.run(FIO.format(size, bytes_), 300)
    guest.run("umount /mnt")


def goes_on_after_a_kill(guest, gateways):
    """The client sends again what the gateway, and then the server, have not answered."""
    for kill in ("gateway", "server"):
        mount(guest, "4.2")
        load = guest.start(f"{FIO.format('64k', '32M')} --time_based --runtime=6 --verify_fatal=1")
        wait_until(lambda: load.output() or load.status() is not None, 60, "the load")
        gateways.kill(kill)
        if kill == "gateway":
            gateways.serve()
        load.expect_success(240)
        guest.run("umount /mnt", 120)
        print(f"passed: {kill} killed", flush=True)


def reaches_the_guests_server(guest, gateways):
    """This machine's libnfs, and the guest's own kernel over TCP, which writes more than libnfs can."""
    guest.run("modprobe nfsd")
    guest.run(KERNEL_SERVER)
    guest.run("mkdir /srv/data && dd if=/dev/urandom of=/srv/data/file bs=1M count=16")
    gateways.client()
    url = f"nfs://{peer.OUR_ADDRESS}/{{}}?version=4&nfsport={CLIENT_PORT}"
    file = os.path.join(guest.share, "read")
    listed = subprocess.run(["nfs-ls", url.format("data")], check=False, capture_output=True, text=True, timeout=100)
    if "file" not in listed.stdout:
        raise Failure(f"nfs-ls: {listed}")
    # Until its time of grace is over, the server opens no file.
    wait_until(lambda: subprocess.run(["nfs-cp", url.format("data/file"), file], check=False, capture_output=True,
                                      timeout=100).returncode == 0, 60, "nfs-cp to read a file")
    guest.run("cmp /host/read /srv/data/file")
    for version in VERSIONS:
        guest.run(f"mount.nfs {peer.OUR_ADDRESS}:/ /mnt -o tcp,port={CLIENT_PORT},vers={version},sec=sys && "
                  "cmp /mnt/data/file /srv/data/file && cp /srv/data/file /mnt/data/copy && umount /mnt && "
                  "cmp /srv/data/copy /srv/data/file", 200)
        print(f"passed: version {version} by a client of TCP", flush=True)


PARTS = (mounts_every_version, reaches_the_guests_server, serves_version_3, verifies_writes, nfs_work.is_locked,
         nfs_work.is_worked_in, nfs_work.has_a_long_file, goes_on_after_a_kill, nfs_work.has_many_files)


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--stack", default="rxe", choices=peer.STACKS, help="Linux's")
    parser.add_argument("--files", type=int, default=1000, help="how many files are made")
    parser.add_argument("--megabytes", type=int, default=64, help="how long the long file is")
    parser.add_argument("--only", help="parts, separated by commas")
    options = parser.parse_args()
    only = options.only.split(",") if options.only else None
    if not are_installed("ganesha.nfsd", "nfs-ls", "nfs-cp"):
        peer.skip("./setup.sh nfs installs them")
    system = os.path.join(options.build, "guest")
    peer.enter_network(system)
    options.path = "wire"
    with Testbed(options) as testbed:
        gateways = Gateways(testbed, PROTOCOLS[options.stack], options)
        with peer.Guest(testbed.folder, system, options.stack) as guest:
            print(f"client and server: NFS over {options.stack} of Linux {guest.version}", flush=True)
            guest.run("echo /bin/modprobe >/proc/sys/kernel/modprobe; command -v mount.nfs && command -v exportfs && "
                      "modprobe rpcrdma && modprobe nfsv4 && mkdir /mnt")
            try:
                gateways.serve()
                for part in PARTS:
                    if only is not None and part.__name__ not in only:
                        continue
                    began = time.monotonic()
                    part(guest, gateways)
                    print(f"passed: {part.__name__} in {time.monotonic() - began:.0f} s", flush=True)
            except Failure:
                print(guest.run("dmesg | tail -n 30"), flush=True)
                raise
            finally:
                gateways.down()
    return 0


if __name__ == "__main__":
    sys.exit(main())
