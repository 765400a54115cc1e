#!/usr/bin/env python3
"""Runs the programs that people really use, unmodified, on two nodes: table.py says what, and rdma-core's own
test suite on a third. Prints a table; --write also writes docs/compatibility.md."""

import fnmatch
import os
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(ROOT, "tests", "programs"))

# pylint: disable=wrong-import-position
import infiniband
import pyverbs
import refused
import report
import table
from testbed import SKIPPED, Failure, Testbed, listens, option_parser, wait_until
from namespaces import LINK_LOCAL_A, LINK_LOCAL_B, MAC_A, MAC_B, Namespace, enter_user_namespace, wait_for_link

ADDRESS_A = "10.77.0.1"
ADDRESS_B = "10.77.0.2"
ADDRESS_A6 = "fd77::1"
ADDRESS_B6 = "fd77::2"
QUIET_SECONDS = 0.3  # A server that has waited this long waits for its clients.


def is_installed(package):
    found = subprocess.run(["dpkg-query", "-W", "-f=${Version}", package], capture_output=True, text=True,
                           check=False)
    return found.stdout.strip() if found.returncode == 0 else ""


def busy_ticks(pid):
    """Returns the CPU time of a process group's leader and its children, in clock ticks."""
    total = 0
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="ascii", errors="replace") as stat:
                    fields = stat.read().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == pid:  # The session: testbed.py starts one for each program.
                total += int(fields[11]) + int(fields[12])
    return total


class Setup:
    """Two network namespaces connected by a cable, with a testbed."""

    def __init__(self, options):
        self.options = options
        self.peer = Namespace()
        # Frames of 9,000 bytes, as is common with RDMA: qperf requires a path MTU of 2,048.
        commands = (f"ip link add veth-a address {MAC_A} mtu 9000 type veth "
                    f"peer name veth-b address {MAC_B} mtu 9000 netns {self.peer.pid}",
                    *self._addresses("veth-a", ADDRESS_A, ADDRESS_A6, LINK_LOCAL_A))
        for command in commands:
            subprocess.run(command.split(), check=True)
        for command in (*self._addresses("veth-b", ADDRESS_B, ADDRESS_B6, LINK_LOCAL_B), "ip link set lo up"):
            self.peer.run(*command.split())
        wait_for_link("veth-a")
        wait_for_link("veth-b", self.peer)
        self.mac_a = self._mac("veth-a")
        self.mac_b = self._mac("veth-b", self.peer.pid)

    @staticmethod
    def _addresses(interface, ipv4, ipv6, link_local):
        """Adds the link-local address in place of the kernel's, which is tentative for a second or two (RFC 4862), so
        that GID 0 exists at once."""
        return (f"ip link set {interface} addrgenmode none", f"ip address add {ipv4}/24 dev {interface}",
                f"ip address add {ipv6}/64 dev {interface} nodad", f"ip link set {interface} up",
                f"ip address add {link_local}/64 dev {interface} nodad")

    @staticmethod
    def _mac(interface, pid=None):
        enter = ["nsenter", "--net", "--target", str(pid), "--"] if pid else []
        shown = subprocess.run([*enter, "ip", "-o", "link", "show", interface], capture_output=True, text=True,
                               check=True).stdout
        return re.search(r"link/ether (\S+)", shown)[1]

    def testbed(self, near=False, protocol=""):
        """Returns nodes a and b: each in a namespace, or both on loopback."""
        testbed = Testbed(self.options, namespace_pids={} if near else {"b": self.peer.pid})
        if not near:
            testbed.set_addresses("a", ADDRESS_A, ADDRESS_A6)
            testbed.set_addresses("b", ADDRESS_B, ADDRESS_B6)
        if protocol:
            for node in ("a", "b"):
                testbed.set_variables(node, VERBATIM_PROTOCOL=protocol)
        return testbed

    @staticmethod
    def rank_options(rank):
        """Where mpirun's rank runs: the number of a rank is in variable `rank` of its shell."""
        return f"--node rank${rank} --address 127.77.0.$(({rank} + 2))"

    def words(self, testbed, port):
        return {"a": testbed.address("a"), "b": testbed.address("b"), "port": port, "folder": testbed.folder,
                "build": testbed.build, "here": HERE, "a6": ADDRESS_A6, "b6": ADDRESS_B6,
                "mac_a": self.mac_a, "mac_b": self.mac_b}


def await_server(testbed, server, port, takes_port, says):
    """Waits until the server prints what its row says. Otherwise until it listens at its TCP port or with an rdma_cm
    id, or has a queue pair that receives; or, if it takes no port, until it is idle. (On a busy machine a program
    that has hardly begun is idle, too.)"""
    def ready():
        if server.ended():
            raise Failure(f"{server.name} ended with status {server.process.returncode} at once")
        if says:
            return says in server.output()
        return listens(server.process.pid, port) or is_served() or (not takes_port and quiet())

    def is_served():
        return any(any(port["listens"] for port in program.get("ports", [])) or
                   any(pair["state"] in ("RTR", "RTS") for pair in program["queue_pairs"])
                   for program in testbed.status("a"))

    seen = [busy_ticks(server.process.pid), time.monotonic()]

    def quiet():
        ticks = busy_ticks(server.process.pid)
        if ticks != seen[0]:
            seen[:] = [ticks, time.monotonic()]
        return time.monotonic() - seen[1] > QUIET_SECONDS

    wait_until(ready, 20, f"{server.name} to be ready")


def run_pair(row, testbed, words):
    def shell(template):
        return ["bash", "-c", f"exec {template}".format_map(words)]

    if row.source:
        source, *libraries = row.source.split()
        words["program"] = os.path.join(testbed.folder, "program")
        subprocess.run(["cc", "-O1", "-Wall", "-o", words["program"], os.path.join(HERE, source), *libraries],
                       check=True)
    if row.before:
        subprocess.run(["bash", "-c", row.before.format_map(words)], check=True)
    server = None
    if row.server:
        server = testbed.start("a", shell(row.server))
        await_server(testbed, server, row.listens or words["port"], bool(row.listens) or "{port}" in row.server,
                     row.says)
    if row.setup:
        subprocess.run(["bash", "-c", row.setup.format_map(words)], check=True, timeout=row.seconds)
    client = testbed.start("b" if row.server else "a", shell(row.client))
    if row.refused:
        if client.wait(row.seconds) == 0:
            raise Failure("the client succeeded, but its row says that it is refused")
    else:
        client.expect_success(row.seconds)
    said = client.output()
    if row.refused and server:
        said += server.output()  # Both ends are refused, and the first one tells the other.
    if row.expect and not re.search(row.expect, said):
        raise Failure(f"the output lacks '{row.expect}'")
    if server and row.ends:
        server.expect_success(row.seconds)
    if row.after:
        subprocess.run(["bash", "-c", row.after.format_map(words)], check=True)


def run_mpi(row, testbed, transport, setup):
    """Runs two ranks on two nodes that share the loopback interface, over which mpirun communicates with its ranks."""
    program = os.path.join(testbed.folder, "mpi_check")
    subprocess.run(["mpicc", "-O1", "-o", program, os.path.join(HERE, "mpi_check.c")], check=True)
    wrapper = os.path.join(testbed.folder, "rank")
    with open(wrapper, "w", encoding="ascii") as script:
        script.write("#!/bin/sh\nrank=$OMPI_COMM_WORLD_RANK\n"
                     f"exec {testbed.build}/bin/verbatim run {setup.rank_options('rank')} -- {program}\n")
    os.chmod(wrapper, 0o755)
    argv = ["env", f"UCX_TLS={transport},self", "UCX_NET_DEVICES=verbatim0:1", "mpirun", "--allow-run-as-root",
            "--oversubscribe", "-np", "2", "--mca", "pml", "ucx", "--mca", "osc", "ucx", "--mca", "btl", "self",
            wrapper]
    program = testbed.start("a", argv)
    program.expect_success(row.seconds)
    if not re.search(row.expect, program.output()):
        raise Failure(f"the output lacks '{row.expect}'")


def run_row(row, setup):
    """Returns 'passed', or how it failed."""
    for runs_left in (2, 1, 0) if row.again else (0,):
        said = []
        result = run_once(row, setup, said)
        if result != "FAILED" or not runs_left or not re.search(row.again, "".join(said)):
            return result
        print(f"again, for it says '{row.again}': {row.name}", flush=True)
    raise AssertionError("the last run returns")


def run_once(row, setup, said):
    """As run_row; `said` gets the output of the programs of a failed run."""
    try:
        with setup.testbed(row.near, row.protocol) as testbed:
            try:
                if row.client.startswith("mpi "):
                    run_mpi(row, testbed, row.client.split()[1], setup)
                else:
                    run_pair(row, testbed, setup.words(testbed, testbed.free_port()))
            except Failure:
                said += [program.output() for program in testbed.programs]
                raise
    except SystemExit:
        return "FAILED"  # The testbed has printed the reason.
    except (subprocess.SubprocessError, OSError) as error:
        print(error)
        return "FAILED"
    return "refused" if row.refused else "passed"


def row_is_elsewhere(row, setup):
    return infiniband.without(row) if isinstance(setup, infiniband.FabricSetup) else None


def run_rows(rows, setup):
    results = []
    for row in rows:
        began = time.monotonic()
        why = row_is_elsewhere(row, setup)
        if why:
            results.append(report.Result(row.group, row.name, "-", why))
            continue
        if not is_installed(row.group):
            print(f"skipped  {row.group:14} {row.name}: the package is not installed", flush=True)
            results.append(report.Result(row.group, row.name, "skipped", "not installed"))
            continue
        result = run_row(row, setup)
        print(f"{result:8} {row.group:14} {row.name} ({time.monotonic() - began:.1f} s)", flush=True)
        results.append(report.Result(row.group, row.name, result, row.refused))
    return results


def run_over_fabric(rows, options):
    setup = infiniband.FabricSetup(options)
    try:
        results = run_rows([row if infiniband.without(row) else infiniband.over_infiniband(row) for row in rows], setup)
        if options.pyverbs:
            with setup.testbed() as testbed:
                results += pyverbs.run(testbed, options.pyverbs)
        return results
    finally:
        setup.close()


def chosen(options):
    patterns = options.pattern or ["*"]
    rows = [row for row in table.all_rows() if not options.quick or row.quick]
    if options.path == "wire":
        rows = [row for row in rows if not row.near]  # Two namespaces have no other path.
    return [row for row in rows
            if any(fnmatch.fnmatch(f"{row.group}: {row.name}", f"*{pattern}*") for pattern in patterns)]


def main():
    parser = option_parser(__doc__)
    parser.set_defaults(build=os.path.join(ROOT, "build"))
    parser.add_argument("--all", action="store_true", help="every row, and rdma-core's suite 20 times")
    parser.add_argument("--quick", action="store_true", help="the rows of the default test suite")
    parser.add_argument("--infiniband", action="store_true", help="only between hosts of an InfiniBand fabric")
    parser.add_argument("--list", action="store_true", help="print what would run")
    parser.add_argument("--pyverbs", type=int, default=0, metavar="RUNS", help="runs of rdma-core's suite")
    parser.add_argument("--write", action="store_true",
                        help="write docs/compatibility.md; with --infiniband, its column of InfiniBand alone")
    parser.add_argument("pattern", nargs="*", help="only rows whose 'package: name' has this (globs)")
    options = parser.parse_args()
    rows = chosen(options) if options.all or options.pattern or not options.pyverbs or options.write else []
    if options.all:
        options.pyverbs = options.pyverbs or 20
    if options.list:
        for row in rows:
            print(f"{row.group}: {row.name}")
        return 0
    if not rows and not options.pyverbs:
        print("skipped: no row is so called")
        return SKIPPED
    enter_user_namespace()
    over_fabric = run_over_fabric(rows, options) if options.infiniband or options.write else []
    document = os.path.join(ROOT, "docs", "compatibility.md")
    kept = (report.SUITE_HEADING, *report.PEERS_HEADINGS.values())
    of_peers = [report.read_section(document, heading) for heading in kept]  # Other tests'.
    if options.infiniband:
        print(report.summary(over_fabric))
        if options.write:
            refusals = report.read_section(document, report.REFUSED_HEADING)
            results = report.with_rows_of(report.read_results(document), over_fabric)
            report.write(document, results, over_fabric, is_installed, "".join([refusals, *of_peers]))
        return 1 if any(result.is_failure() for result in over_fabric) else 0
    setup = Setup(options)
    try:
        results = run_rows(rows, setup)
        if options.pyverbs:
            with setup.testbed() as testbed:
                results += pyverbs.run(testbed, options.pyverbs)
        if options.write:
            with setup.testbed() as testbed:
                refusals = refused.section(refused.run(testbed))
    finally:
        setup.peer.close()
    failed = sum(result.is_failure() for result in results + over_fabric)
    print(report.summary(results))
    if options.write:
        report.write(document, results, over_fabric, is_installed, "".join([refusals, *of_peers]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
