#!/usr/bin/env python3
"""Verbatim beside Linux's own rdma_rxe and siw, on the same emulated processors: Debian's perftest between
two endpoints of the guest of ./test.sh --peers, all in turn. Prints a table; --write also writes it into
docs/benchmarks.md."""

import pathlib
import re
import shutil
import statistics
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent.parent
for folder in ("tests/programs", "tests/peers", "tests/compat"):
    sys.path.insert(0, str(ROOT / folder))

import guest as peer  # noqa: E402  (the path has to be set first)
import report  # noqa: E402
from testbed import Failure, Testbed, option_parser  # noqa: E402
from measure import MIB, last_row  # noqa: E402

SECONDS_MAX = 90
TRIES = 5  # perftest's -R connects a second time at once, which may be too early; its clock may be wrong.
HEADING = "\n## Beside the kernel's stacks, in one guest\n"
HEAD = """Written by `bench/guest.py --write`: Linux {version} under QEMU, which emulates two processors; medians of {rounds} rounds (least to
greatest). Both ends are in the guest: `rdma_rxe` and `siw` on its Ethernet interface, which lets nothing of this out, all others over
loopback. The first rows are what Verbatim does there by itself: two programs of one machine take the direct path. *wire* is
`VERBATIM_PATH=wire`, packets and segments between them as between two machines.

| work | Verbatim | kernel's stack, or limit | ratio | aim | met |
|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Work:
    name: str
    program: str
    column: int  # In perftest's last row.
    scale: float
    unit: str


WORKS = (
    Work("`ib_write_bw`, 4 KiB", "ib_write_bw -F -D 2 -s 4096", 3, MIB / 1e6, "MB/s"),
    Work("`ib_write_bw`, 64 KiB", "ib_write_bw -F -D 2 -s 65536", 3, MIB / 1e6, "MB/s"),
    Work("`ib_send_lat`, 8 B", "ib_send_lat -F -n 2000 -s 8", 4, 1, "us"),
)


@dataclass(frozen=True)
class Stack:
    """perftest with one RDMA stack."""
    name: str
    words: str
    prepare: str
    run: str = ""  # Ours: in a new network namespace, because rxe uses RoCE's port in the first one.

    def script(self, work):
        host = "127.0.0.1" if self.run else peer.ADDRESS
        return f"""{self.prepare}
{self.run} {work.program} {self.words} >/tmp/server 2>&1 &
server=$!
until netstat -ltn | grep -q ':18515 ' || ! kill -0 $server; do usleep 50000; done
{self.run} {work.program} {self.words} {host}
status=$?
[ $status = 0 ] || kill $server 2>/dev/null
wait
exit $status
"""

    @staticmethod
    def figure(work, output):
        return last_row(output)[work.column] * work.scale


@dataclass(frozen=True)
class Limit:
    """A limit of the guest's kernel without RDMA."""
    name: str
    command: str
    units: tuple  # (unit that it prints, number of them per unit of work)

    def script(self, _work):
        server = "qperf -lp 19765 & server=$!; usleep 500000\n" if self.command.startswith("qperf") else "server=\n"
        return f"{server}{self.command}\nstatus=$?\n[ -z $server ] || kill $server\nexit $status\n"

    def figure(self, _work, output):
        for unit, factor in self.units:
            if found := re.search(rf"([\d.]+) {unit}\b", output):
                return float(found.group(1)) * factor
        raise Failure(f"no figure in:\n{output}")


def link(stack, other):
    return f"rdma link del {other}0 2>/dev/null; rdma link add {stack}0 type {stack} netdev eth0 2>/dev/null"


def ours(name, words, protocol, *variables):
    run = (f"env {' '.join(variables)} /tmp/verbatim/bin/verbatim run --node {protocol} --address 127.0.0.1 "
           f"--protocol {protocol} --")
    return Stack(name, words, "ip link set lo up", run)


RXE = Stack("`rdma_rxe`", "-d rxe0 -x 1", link("rxe", "siw"))
SIW = Stack("`siw`", "-d siw0 -R", link("siw", "rxe"))
WIRE = "VERBATIM_PATH=wire"
ROCE = ours("RoCE v2", "-x 1", "roce")
IWARP = ours("iWARP", "-R", "iwarp")
ROCE_WIRE = ours("RoCE v2, wire", "-x 1", "roce", WIRE)
IWARP_WIRE = ours("iWARP, wire", "-R", "iwarp", WIRE, "VERBATIM_MPA=no-crc")  # As siw, which does not ask for one.
IWARP_CRC = ours("iWARP, wire, CRC", "-R", "iwarp", WIRE)
BYTES = (("GB/sec", 1e3), ("MB/sec", 1), ("KB/sec", 1e-3), ("GB/s", 1e3))
TIMES = (("us", 1), ("ms", 1e3))
UDP = Limit("UDP, datagrams of 4,112 B, segmentation offload", "/tmp/verbatim/bin/bench_limits udp 2 4112 15", BYTES)
TCP = Limit("TCP, `qperf`, 64 KiB a call", "qperf -lp 19765 -t 2 -m 65536 127.0.0.1 tcp_bw", BYTES)
UDP_LATENCY = Limit("UDP, 8 B, both ends spin", "/tmp/verbatim/bin/bench_limits udp_latency 2 8", TIMES)
TCP_LATENCY = Limit("TCP, 8 B, both ends spin", "/tmp/verbatim/bin/bench_limits tcp_latency 2 8", TIMES)
WRITE_4K, WRITE_64K, SEND = WORKS
# Task, ours, the other; and the goal, if there is one.
ROWS = (
    *((work, own, other, aim) for pairs in (((ROCE, RXE), (IWARP, SIW)), ((ROCE_WIRE, RXE), (IWARP_WIRE, SIW)))
      for work, aim in ((WRITE_4K, 2), (WRITE_64K, 2), (SEND, 1)) for own, other in pairs),
    *((work, IWARP_CRC, SIW, None) for work in WORKS),
    (WRITE_64K, ROCE_WIRE, UDP, None), (WRITE_64K, IWARP_WIRE, TCP, None),
    (SEND, ROCE_WIRE, UDP_LATENCY, None), (SEND, IWARP_WIRE, TCP_LATENCY, None),
)


def install(guest, build):
    """Copies Verbatim and the libraries that it loads to the guest's memory."""
    own = pathlib.Path(guest.share, "verbatim")
    for folder in ("bin", "lib"):
        (own / folder).mkdir(parents=True)
    libraries = pathlib.Path(guest.share, "libraries")
    libraries.mkdir()
    files = ["bin/verbatim", "bin/verbatimd", "bin/bench_limits",
             *(f"lib/{path.name}" for path in pathlib.Path(build, "lib").glob("*.so*"))]
    for name in files:
        shutil.copy(f"{build}/{name}", own / name)
        listing = subprocess.run(["ldd", f"{build}/{name}"], check=True, text=True, stdout=subprocess.PIPE).stdout
        for path in (line.split()[2] for line in listing.splitlines() if "=> /" in line):
            if not path.startswith(f"{build}/"):
                shutil.copy(path, libraries)
    guest.run("cp -r verbatim /tmp/; for it in libraries/*; do [ -e /usr/lib/x86_64-linux-gnu/${it##*/} ] || "
              "cp $it /usr/lib/x86_64-linux-gnu/; done")


def measure(guest, what, work):
    pathlib.Path(guest.share, "script").write_text(what.script(work), encoding="utf-8")
    own_network = isinstance(what, Stack) and what.run
    for attempt in range(TRIES):
        job = guest.start(f"{'unshare -n ' if own_network else ''}sh /host/script")
        try:
            job.expect_success(SECONDS_MAX)
            found = what.figure(work, job.output())
            if 0 < found < float("inf"):
                return found
            raise Failure("it has measured nothing")
        except Failure as failure:
            if attempt + 1 == TRIES:
                raise Failure(f"{what.name}, {work.name}: {failure}\n{job.output()}") from failure
    raise AssertionError


def figure(values, unit):
    return f"{statistics.median(values):.3g} {unit} ({min(values):.3g} to {max(values):.3g})"


def row(work, own, other, aim, results):
    ratios = [one / two for one, two in zip(results[work, own], results[work, other])]
    ratio = statistics.median(ratios)
    is_latency = work.unit == "us"
    cells = [work.name, f"{own.name}: {figure(results[work, own], work.unit)}",
             f"{other.name}: {figure(results[work, other], work.unit)}",
             f"{ratio:.3g} ({min(ratios):.3g} to {max(ratios):.3g})"]
    if aim is None:
        cells += ["", ""]
    else:
        is_met = ratio <= aim if is_latency else ratio >= aim
        cells += [f"at {'most' if is_latency else 'least'} {aim}", "yes" if is_met else "no"]
    return f"| {' | '.join(cells)} |\n"


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    options = parser.parse_args()
    build = str(pathlib.Path(options.build).resolve())
    peer.enter_network(f"{build}/guest")
    # Each once per round, in the order of the rows.
    tasks = dict.fromkeys((work, what) for work, own, other, _ in ROWS for what in (own, other))
    results = defaultdict(list)
    with Testbed(options) as testbed, peer.Guest(testbed.folder, f"{build}/guest", "rxe") as guest:
        install(guest, build)
        for number in range(options.rounds):
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
            for work, what in tasks:
                results[work, what].append(measure(guest, what, work))
        table = HEAD.format(version=guest.version, rounds=options.rounds) + "".join(row(*one, results) for one in ROWS)
    print(table)
    if options.write:
        report.write_section(ROOT / "docs" / "benchmarks.md", HEADING, HEADING + table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
