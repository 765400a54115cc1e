"""A disk that `verbatim disk` serves on node b, and the programs of others that use it."""

import hashlib
import os
import signal

from testbed import Failure, wait_until

SECONDS = 120
TOOLS = ("nbdkit", "nbdcopy", "nbdinfo", "qemu-io", "qemu-img", "fio")


class NbdDisk:
    """A disk by its URI."""

    def __init__(self, testbed, uri):
        self.testbed = testbed
        self.uri = uri

    def start(self, *argv):
        return self.testbed.start("b", [word.replace("URI", self.uri) for word in argv])

    def run(self, *argv, seconds=SECONDS):
        program = self.start(*argv)
        program.expect_success(seconds)
        return program.output()

    def qemu_io(self, *commands):
        """qemu-io's own status does not tell of a pattern that is wrong."""
        output = self.run("qemu-io", "-f", "raw", "-d", "unmap", *(word for one in commands for word in ("-c", one)), "URI")
        if "failed" in output or "error" in output:
            raise Failure(f"qemu-io {commands}:\n{output}")

    def is_copied_both_ways(self, bytes_of_disk):
        """Returns the content's digest."""
        there, back = f"{self.testbed.folder}/there", f"{self.testbed.folder}/back"
        data = os.urandom(bytes_of_disk)
        with open(there, "wb") as file:
            file.write(data)
        self.run("nbdcopy", "--flush", there, "URI")
        self.run("nbdcopy", "URI", back)
        self.run("qemu-img", "compare", "-f", "raw", "-F", "raw", there, "URI")
        with open(back, "rb") as file:
            if file.read() != data:
                raise Failure("other bytes came back")
        return hashlib.md5(data).hexdigest()

    def fio(self, *options):
        return ("fio", "--name=disk", "--ioengine=nbd", "--uri=URI", "--rw=randwrite", "--iodepth=16",
                "--verify_state_save=0", *options)

    def is_verified(self):
        self.run(*self.fio("--bs=4k", "--size=8M", "--verify=crc32c", "--verify_state_save=0"))
        self.run(*self.fio("--bsrange=512-512k", "--size=16M", "--verify=crc32c", "--verify_state_save=0"))

    def is_cleared(self):
        """Zeroes, discards, requests that are no whole blocks."""
        self.qemu_io("write -P 7 0 4M", "write -z 1M 1M", "read -P 7 0 1M", "read -P 0 1M 1M", "read -P 7 2M 2M",
                     "write -z -u 2M 1M", "read -P 0 2M 1M", "discard 3M 512k", "flush")
        self.qemu_io("write -P 5 0 64k", "write -P 9 700 300", "read -P 5 0 700", "read -P 9 700 300",
                     "read -P 5 1000 1000", "write -f -P 3 64k 4k", "read -P 3 64k 4k")

    def goes_on_over(self, happens):
        """Under load; nothing fails."""
        self._is_loaded_over(happens, "--bs=4k", "--size=16M", "--time_based", "--runtime=6")
        self.run(*self.fio("--bs=4k", "--size=4M", "--verify=crc32c"))

    def is_verified_over(self, happens):
        """Under load; each write that was answered is read afterwards, in the order of writing."""
        self._is_loaded_over(happens, "--bs=4k", "--size=16M", "--rate_iops=,1500", "--verify=crc32c")

    def _is_loaded_over(self, happens, *options):
        """Runs fio again and again, until that has happened: on a busy machine it takes as long as it takes."""
        over = f"{self.testbed.folder}/over"
        again = 'rm -f "$0"; while "$@"; do [ -e "$0" ] && exit; done; exit 1'
        load = self.start("sh", "-c", again, over, *self.fio(*options, "--eta=always", "--eta-newline=1"))
        wait_until(lambda: "w=" in load.output() or load.ended(), SECONDS, "the load")
        happens()
        with open(over, "wb"):
            pass
        load.expect_success(SECONDS)


class ServedDisk(NbdDisk):
    """A context manager: from the URI that the command prints until it is ended."""

    def __init__(self, testbed, url, *options):
        super().__init__(testbed, "")
        self.program = testbed.start("b", [f"{testbed.build}/bin/verbatim", "disk", url, *options])

    def __enter__(self):
        wait_until(lambda: "nbd+unix" in self.program.output() or self.program.ended(), SECONDS, "the disk's URI")
        for line in self.program.output().splitlines():
            if line.startswith("nbd+unix:///?socket="):
                self.uri = line
        if not self.uri:
            raise Failure(f"no URI in:\n{self.program.output()}")
        return self

    def __exit__(self, kind, error, trace):
        if error is None:
            self.end()

    def end(self):
        self.program.process.send_signal(signal.SIGTERM)
        self.program.expect_success(SECONDS)
        if os.path.exists(self.uri.split("=", 1)[1]):
            raise Failure("the socket is left behind")
