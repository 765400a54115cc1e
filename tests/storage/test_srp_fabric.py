#!/usr/bin/env python3
"""`verbatim target --srp` on a host of an InfiniBand fabric: Debian's ibsrpdm and srp_daemon find it across two
switches, and an initiator takes their lines word for word."""

import ipaddress
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fabric"))

from fabricbed import TRIANGLE, FabricBed, HostsTestbed, fields_of
from test_srp_target import REFUSED, SECONDS, Bench
from testbed import SKIPPED, Failure, are_installed, option_parser, wait_until

HOSTS = {"a": "H1", "b": "H4"}
DEVICE_MANAGEMENT = 1 << 19  # Of a port's capabilities.
SHOWN = """IO Unit Info:
    port LID:        {lid:04x}
    port GID:        {gid}
    change ID:       0001
    max controllers: 0x10

    controller[  1]
        GUID:      {guid}
        vendor ID: {vendor}
        device ID: 000001
        IO class : 0100
        Maximum size of Send Messages in bytes: 8260
        ID:        Verbatim SRP target
        service entries: 1
            service[  0]: {guid} / SRP.T10:{guid}

"""


class FabricBench(Bench):
    """The target on H1, those who look for it on other hosts."""

    def __init__(self, testbed, bed):
        super().__init__(testbed, None)
        self.bed = bed
        shown = bed.hosts()["H1"]
        self.gid = ipaddress.IPv6Address(shown["gid"]).packed.hex()
        text = self.bed.run("H1", "cat", "/sys/class/infiniband/verbatim0/node_guid")
        self.guid = text.strip().replace(":", "")

    def up(self, *words):
        self.verbatim("up", "--host", "H1", *words)

    def where(self):
        return ("--host", "H1")

    def line(self, extension, guid):
        return f"id_ext={extension},ioc_guid={guid},dgid={self.gid},pkey=ffff,service_id={self.guid}\n"

    def find(self, *argv, host="H4"):
        return self.bed.run(host, *argv)

    def wait_until_found(self, lines):
        """The manager reads the port again when its trap has come."""
        wait_until(lambda: self.find("ibsrpdm", "-c") == lines, SECONDS, f"ibsrpdm to find:\n{lines}")

    def capabilities(self):
        """As the port's agent tells them, and as programs of the host see them."""
        told = fields_of(self.bed.run("H2", "smpquery", "portinfo", str(self.bed.lids()["H1"]), "1"))["CapMask"]
        seen = self.bed.run("H1", "cat", "/sys/class/infiniband/verbatim0/ports/1/cap_mask")
        return int(told, 16), int(seen, 16)

    def disks(self, status, rounds, *lines):
        program = self.testbed.start("b", [f"{self.testbed.build}/bin/srp_disk", str(rounds),
                                           *(line.strip() for line in lines)])
        if program.wait(SECONDS) != status:
            raise Failure(f"srp_disk: expected status {status}:\n{program.output()}")
        return program.output()


def is_found(bench):
    """As soon as it runs, like Linux's: who may log in is another question."""
    if len(bench.bed.hops("H4", "H1")) < 2 or bench.find("ibsrpdm", "-c") != "":
        raise Failure("the way to no target is not as it should be")
    bench.up("--srp")
    line = bench.line(bench.guid, bench.guid)
    bench.wait_until_found(line)
    shown = SHOWN.format(lid=bench.bed.lids()["H1"], gid=bench.gid, guid=bench.guid, vendor=bench.guid[:6])
    if bench.find("ibsrpdm", host="H2") != shown:
        raise Failure(f"ibsrpdm does not show:\n{shown}")
    if bench.find("srp_daemon", "-o", "-c", "-a", "-i", "verbatim0", "-p", "1") != line:
        raise Failure(f"srp_daemon does not print:\n{line}")
    told, seen = bench.capabilities()
    if not told & seen & DEVICE_MANAGEMENT:
        raise Failure(f"capabilities {told:#x}, {seen:#x} have no device management")


def refuses_whom_it_does_not_admit(bench):
    text = bench.disks(REFUSED, 1, bench.line(bench.guid, bench.guid))
    if "does not admit this initiator" not in text:
        raise Failure(f"not the reason of the refusal:\n{text}")
    bench.expect_incident("does not admit initiator")


def is_found_no_more(bench):
    bench.down()
    wait_until(lambda: not bench.capabilities()[0] & DEVICE_MANAGEMENT, SECONDS, "a port without an agent")
    bench.wait_until_found("")


def takes_the_line(bench):
    bench.up("--srp", "--allow-any-srp-initiator")
    bench.wait_until_found(bench.line(bench.guid, bench.guid))
    if "1 sessions" not in bench.disks(0, 200, bench.find("ibsrpdm", "-c")):
        raise Failure("not in one session")
    bench.wait_until_empty()
    bench.down()


def has_twenty_ports(bench):
    """Five controllers with four services each."""
    ports = [(f"{extension:016x}", f"02000000000001{number:02x}") for number in range(5) for extension in range(1, 5)]
    bench.up("--allow-any-srp-initiator", *(word for port in ports for word in ("--srp", "".join(port))))
    lines = [bench.line(*port) for port in ports]
    bench.wait_until_found("".join(lines))
    text = bench.disks(0, 40, *bench.find("ibsrpdm", "-c").splitlines())
    if text.count("VERBATIM") != len(ports):
        raise Failure(f"not {len(ports)} disks:\n{text}")
    bench.wait_until_empty()
    bench.down()


PARTS = (is_found, refuses_whom_it_does_not_admit, is_found_no_more, takes_the_line, has_twenty_ports)


def main():
    options = option_parser(__doc__).parse_args()
    if not are_installed("opensm", "ibsrpdm", "srp_daemon"):
        return SKIPPED
    with FabricBed(options) as bed:
        bed.up(TRIANGLE, "--manager", "opensm")
        bed.wait_until_active("H1", "H2", "H4")
        with HostsTestbed(options, bed, HOSTS) as testbed:
            bench = FabricBench(testbed, bed)
            for part in PARTS:
                part(bench)
                print(f"passed: {part.__name__}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
