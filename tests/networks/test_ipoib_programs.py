#!/usr/bin/env python3
"""Programs over interfaces of IP over InfiniBand: rdma_cm by their addresses, ssh, NFS; and links that lose and
damage packets (they keep them in order)."""

import json
import os
import shutil
import subprocess
import sys
import unittest

import test_ipoib as base

sys.path[:0] = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs")]

from fabricbed import FabricBed, run_tests  # noqa: E402 (found by test_ipoib)
from testbed import SKIPPED, are_installed, option_parser, wait_until  # noqa: E402

SECONDS_MAX = 60
A, A6 = base.HOSTS["H1"]
B, B6 = base.HOSTS["H2"]
# Server on H2, client on H1: Debian's own programs.
BY_RDMA_CM = (
    (f"rping -s -v -a {B} -C 3", f"rping -c -v -a {B} -C 3"),
    (f"rping -s -v -a {B6} -C 3", f"rping -c -v -a {B6} -C 3"),
    ("rping -s -v -C 3", f"rping -c -v -a {B} -I {A} -C 3"),
    ("ucmatose", f"ucmatose -s {B}"),
    (f"udaddy -b {B}", f"udaddy -s {B}"),
    ("rdma_server", f"rdma_client -s {B}"),
    ("ib_write_bw -R -n 100", f"ib_write_bw -R -n 100 {B}"),
)
SSHD = """Port 2222
ListenAddress {address}
HostKey {folder}/host_key
PidFile {folder}/sshd.pid
AuthorizedKeysFile {folder}/user_key.pub
StrictModes no
UsePAM no
Subsystem sftp internal-sftp
ForceCommand internal-sftp
"""
GANESHA = """
NFS_CORE_PARAM {{ NFS_Port = 2049; Protocols = 4; Bind_addr = {address}; Enable_NLM = false; Enable_RQUOTA = false;
  Enable_UDP = false; mount_path_pseudo = true; }}
NFSv4 {{ RecoveryBackend = fs; RecoveryRoot = "{folder}"; Graceless = true; Allow_Numeric_Owners = true;
  Only_Numeric_Owners = true; }}
EXPORT {{ Export_Id = 1; Path = "{folder}/files"; Pseudo = /; Access_Type = RW; Protocols = 4; Transports = TCP;
  SecType = sys; Squash = None; FSAL {{ Name = VFS; }} }}
VFS {{ only_one_user = true; }}
LOG {{ Default_Log_Level = WARN; }}
"""
SENDER = """
import hashlib, socket, sys
data = b"".join(hashlib.sha256(str(i).encode()).digest() for i in range(1 << 16))
with socket.create_connection((sys.argv[1], 4001), timeout=50) as stream:
    stream.sendall(data)
    stream.shutdown(socket.SHUT_WR)
    back = b"".join(iter(lambda: stream.recv(1 << 16), b""))
assert back == data[::-1], len(back)
"""
REVERSER = """
import socket, sys
with socket.create_server((sys.argv[1], 4001)) as server:
    stream, _ = server.accept()
    with stream:
        data = b"".join(iter(lambda: stream.recv(1 << 16), b""))
        stream.sendall(data[::-1])
"""


class Bench(base.IpoibTest):
    def listens_on(self, host, port):
        return f":{port} " in self.on(host, "ss", "-ltn")


class IpoibPrograms(Bench):
    def test_rdma_cm_by_the_interfaces_addresses(self):
        """The interfaces are in namespaces of their own; the programs are not."""
        for host in base.HOSTS:
            self.up(host)
        for server, client in BY_RDMA_CM:
            if not shutil.which(server.split()[0]):
                continue
            with self.subTest(server):
                listens = self.bed.start("H2", *server.split())
                self.wait_until_bound("H2")
                self.bed.run("H1", *client.split())
                self.assertEqual(listens.wait(SECONDS_MAX), 0)
        for address, word in (("10.9.0.77", "does not answer"), ("127.64.99.99", "no host of the fabric")):
            said = self.refused("H1", f"rping -c -v -a {address} -C 1")
            self.assertIn(word, said)
        self.assertIn("Cannot assign requested address", self.refused("H2", f"rping -s -v -a {A} -C 1"))

    def test_without_an_interface_its_addresses_are_unknown(self):
        self.assertIn("verbatim ipoib up", self.refused("H1", f"rping -c -v -a {B} -C 1"))

    def refused(self, host, command):
        done = subprocess.run([f"{self.bed.build}/bin/verbatim", "run", "--host", host, "--", *command.split()], text=True,
                              env=self.bed.environment(), check=False, capture_output=True, timeout=SECONDS_MAX)
        self.assertNotEqual(done.returncode, 0)
        return done.stderr

    def ordinary(self, *command):
        """An ordinary user's, who has the namespace's network: sshd takes itself for root's else."""
        return ["unshare", "--user", "--map-user=65534", "--map-group=65534", "--", *command]

    @unittest.skipUnless(are_installed("sshd", "sftp", "ssh-keygen"), "no sshd")
    def test_ssh_to_an_ordinary_users_server(self):
        for host in base.HOSTS:
            self.up(host)
        folder = f"{self.bed.folder}/ssh"
        os.mkdir(folder)
        for key in ("host_key", "user_key"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/{key}"], check=True)
        with open(f"{folder}/sshd_config", "w", encoding="ascii") as file:
            file.write(SSHD.format(address=B, folder=folder))
        with open(f"{folder}/there", "wb") as file:
            file.write(os.urandom(8 << 20))
        self.start_on("H2", *self.ordinary(shutil.which("sshd"), "-D", "-e", "-f", f"{folder}/sshd_config"))
        wait_until(lambda: self.listens_on("H2", 2222), SECONDS_MAX, "sshd")
        options = ("IdentityFile=" + folder + "/user_key", "StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null")
        sftp = ["sftp", "-P", "2222", "-b", f"{folder}/batch", *(word for one in options for word in ("-o", one))]
        with open(f"{folder}/batch", "w", encoding="ascii") as file:
            file.write(f"get {folder}/there {folder}/got\nput {folder}/got {folder}/put\n")
        self.on("H1", *self.ordinary(*sftp, f"nobody@{B}"))
        subprocess.run(["cmp", f"{folder}/there", f"{folder}/put"], check=True)

    @unittest.skipUnless(are_installed("ganesha.nfsd", "nfs-cp"), "no NFS")
    def test_nfs(self):
        for host in base.HOSTS:
            self.up(host, *base.CONNECTED)
        folder = f"{self.bed.folder}/nfs"
        os.makedirs(f"{folder}/files/below")
        with open(f"{folder}/ganesha.conf", "w", encoding="ascii") as file:
            file.write(GANESHA.format(address=B, folder=folder))
        for name, size in (("files/below/there", 8 << 20), ("here", 1000)):
            with open(f"{folder}/{name}", "wb") as file:
                file.write(os.urandom(size))
        preload = f"LD_PRELOAD={self.bed.build}/lib/libverbatim-handles.so"
        self.start_on("H2", "env", preload, shutil.which("ganesha.nfsd"), "-F", "-L", f"{folder}/log", "-p", f"{folder}/pid",
                      "-f", f"{folder}/ganesha.conf")
        wait_until(lambda: self.listens_on("H2", 2049), SECONDS_MAX, "nfs-ganesha")
        url = f"nfs://{B}/below/{{}}?version=4&nfsport=2049&uid=0&gid=0"
        self.on("H1", "nfs-cp", url.format("there"), f"{folder}/back")
        self.on("H1", "nfs-cp", f"{folder}/here", url.format("copy"))  # Debian's writes no more than a kilobyte by version 4.
        for name, copy in (("files/below/there", "back"), ("here", "files/below/copy")):
            subprocess.run(["cmp", f"{folder}/{name}", f"{folder}/{copy}"], check=True)


class BedWithFaults(FabricBed):
    def environment(self):
        return super().environment() | {"VERBATIM_FAULT": "loss=1%,corrupt=1%,seed=3"}


class IpoibWithFaults(Bench):
    """Both ways, every byte; the modes in turn."""
    make_bed = BedWithFaults

    def test_every_byte_is_right(self):
        for mode in ((), base.CONNECTED):
            for host in base.HOSTS:
                self.up(host, *mode)
            self.expect_every_byte()
            for host in base.HOSTS:
                self.bed.verbatim("ipoib", "down", "--host", host)

    def expect_every_byte(self):
        reverser = self.start_on("H2", sys.executable, "-c", REVERSER, B)
        wait_until(lambda: self.listens_on("H2", 4001), SECONDS_MAX, "the server")
        self.on("H1", sys.executable, "-c", SENDER, B)
        self.assertEqual(reverser.wait(SECONDS_MAX), 0)


def main():
    base.OPTIONS = option_parser(__doc__).parse_args()
    can_make = subprocess.run([*base.NAMESPACES, "sh", "-c", "ip tuntap add t0 mode tun"], check=False, capture_output=True)
    if not are_installed("opensm", "ip", "nsenter", "rping") or can_make.returncode != 0:
        print("needs opensm, ip, rping, and interfaces in a user's network namespace")
        return SKIPPED
    run_tests()
    return 0


if __name__ == "__main__":
    sys.exit(main())
