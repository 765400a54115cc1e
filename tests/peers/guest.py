"""A Linux kernel with its own RDMA stack, under QEMU: a peer for our nodes at the other end of a TAP
device. Everything is in this script's own network namespace and a folder that goes with it."""

import os
import shlex
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "programs"))

from testbed import Failure, SKIPPED, wait_until
from namespaces import enter_user_namespace, is_inside

ADDRESS, ADDRESS_6 = "10.77.0.2", "fd77::2"  # Of the guest.
OUR_ADDRESS, OUR_ADDRESS_6 = "10.77.0.1", "fd77::1"
MTU = 4500  # RoCE's 4096 and its headers.
STACKS = ("rxe", "siw")  # Linux's stacks, which the guest can have on its interface.
TOOLS = ("qemu-system-x86_64", "busybox", "cpio", "modprobe", "rdma")
BOOT_SECONDS_MAX = 300
# This machine's own files, so that every installed program runs in the guest: for `run_here`.
MACHINE = """[ -d /machine ] || {
  mkdir /machine && mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=262144,cache=loose root /machine &&
  for f in dev proc sys tmp host; do [ ! -d /machine/$f ] || mount --rbind /$f /machine/$f || exit; done &&
  mount -t tmpfs run /machine/run; } || exit
exec chroot /machine /usr/bin/env -i PATH=/usr/bin:/usr/sbin:/bin:/sbin HOME=/tmp LANG=C.UTF-8 /bin/sh -c """


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


def enter_network(system):
    """Enters a network namespace with a TAP device, or ends this script as skipped. `system`: the folder for the
    guest's files."""
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        skip("no access to /dev/net/tun")
    missing = [tool for tool in TOOLS if not shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin:/sbin")]
    if missing:
        skip(f"not installed: {' '.join(missing)}; ./test.sh --peers installs them")
    if not is_inside():  # Here packages can still be downloaded.
        subprocess.run([f"{HERE}/guest/prepare.sh", system], check=True)
    enter_user_namespace()
    for command in ("ip tuntap add dev tap0 mode tap", f"ip address add {OUR_ADDRESS}/24 dev tap0",
                    f"ip address add {OUR_ADDRESS_6}/64 dev tap0 nodad", f"ip link set tap0 mtu {MTU} up"):
        subprocess.run(command.split(), check=True)


class Job:
    """A command in the guest."""

    def __init__(self, guest, name, command):
        self.name = f"in the guest: {command}"
        self._guest = guest
        self._stem = os.path.join(guest.share, name)

    def output(self):
        try:
            with open(f"{self._stem}.out", encoding="utf-8", errors="replace") as out:
                return out.read()
        except FileNotFoundError:
            return ""

    def status(self):
        """None while it runs."""
        try:
            with open(f"{self._stem}.status", encoding="ascii") as status:
                return int(status.read())
        except FileNotFoundError:
            return None

    def expect_success(self, seconds):
        wait_until(lambda: self.status() is not None or self._guest.has_ended(), seconds, f"{self.name}: its end")
        if self.status() != 0:
            raise Failure(f"{self.name} ended with status {self.status()}")


class Guest:
    """A context manager, to be used inside a testbed, whose folder it uses."""

    def __init__(self, folder, system, stack, megabytes=2048):
        self.share = os.path.join(folder, "guest")
        self.stack = stack
        self._jobs = []
        os.makedirs(self.share)
        self._console = open(os.path.join(folder, "console"), "wb")
        self._process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "--", "qemu-system-x86_64", "-machine", "q35,accel=tcg",
             "-cpu", "max", "-smp", "2", "-m", str(megabytes), "-nographic", "-no-reboot", "-nodefaults",
             "-serial", "stdio", "-kernel", f"{system}/vmlinuz", "-initrd", f"{system}/initramfs.gz",
             "-append", "console=ttyS0 quiet panic=-1 mitigations=off rdinit=/init "
             f"guest_stack={stack} guest_mtu={MTU} guest_address={ADDRESS} guest_address_6={ADDRESS_6}",
             "-netdev", "tap,id=n0,ifname=tap0,script=no,downscript=no",
             "-device", f"virtio-net-pci,netdev=n0,host_mtu={MTU},romfile=",
             "-virtfs", f"local,path={self.share},mount_tag=host,security_model=none",
             "-virtfs", "local,path=/,mount_tag=root,security_model=none,readonly=on,multidevs=remap"],
            stdin=subprocess.PIPE, stdout=self._console, stderr=subprocess.STDOUT)
        self.version = ""

    def __enter__(self):
        version = os.path.join(self.share, "version")
        wait_until(lambda: os.path.exists(version) or self.has_ended(), BOOT_SECONDS_MAX, "the guest to boot")
        if self.has_ended():
            self._console.flush()
            with open(self._console.name, encoding="utf-8", errors="replace") as console:
                raise Failure(f"the guest did not boot:\n{console.read()}")
        with open(version, encoding="ascii") as text:
            self.version = text.read().strip()
        return self

    def __exit__(self, kind, error, trace):
        if error is not None:
            for job in self._jobs[-3:]:
                print(f"--- {job.name}: status {job.status()}\n{job.output().rstrip()}")
        self._say("")
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._console.close()

    def _say(self, line):
        """Writes a line to the guest's console."""
        try:
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError:  # It has ended, which the caller's wait will show.
            pass

    def has_ended(self):
        return self._process.poll() is not None

    def start(self, command):
        name = str(len(self._jobs))
        with open(f"{self.share}/{name}.sh", "w", encoding="utf-8") as script:
            script.write(f"{command}\n")
        self._say(name)
        self._jobs.append(Job(self, name, command))
        return self._jobs[-1]

    def run(self, command, seconds=60):
        job = self.start(command)
        job.expect_success(seconds)
        return job.output()

    def start_here(self, command):
        """The same with this machine's programs and files, which are read-only but for /tmp and /run."""
        return self.start(MACHINE + shlex.quote(command))

    def run_here(self, command, seconds=60):
        job = self.start_here(command)
        job.expect_success(seconds)
        return job.output()

    def wait_for_listener(self, port, job):
        """Waits until a program of the guest listens at the port: with TCP, or with the RDMA connection manager."""
        command = (f"until netstat -ltn | grep -q ':{port} ' || rdma resource show cm_id | grep -q 'LISTEN.*:{port} '; "
                   "do usleep 50000; done")
        waiting = self.start(command)
        wait_until(lambda: waiting.status() is not None or job.status() is not None, 60,
                   f"{job.name}: to listen at {port}")
        if job.status() is not None:
            raise Failure(f"{job.name} ended before it listened")
