#!/usr/bin/env python3
"""Verbatim beside Linux's own rdma_rxe and siw, on the same emulated processors: Debian's perftest between
two endpoints of the guest of ./test.sh --peers, the stacks in turn. Prints a table; --write also writes it
into docs/benchmarks.md."""

import pathlib
import shutil
import statistics
import subprocess
import sys
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parent.parent
for folder in ("tests/programs", "tests/peers", "tests/compat"):
    sys.path.insert(0, str(ROOT / folder))

import guest as peer  # noqa: E402  (the path has to be set first)
import report  # noqa: E402
from lab import Failure, Lab, option_parser  # noqa: E402
from measure import MIB, last_row  # noqa: E402

SECONDS_MAX = 90
TRIES = 3  # perftest's -R connects a second time at once, and may be too early.
HEADING = "\n## Beside the kernel's stacks, in one guest\n"
HEAD = """Written by `bench/guest.py --write`: Linux {version} under QEMU without hardware's help, two emulated processors, medians of {rounds}
rounds (least to greatest). Both ends in the guest: `rdma_rxe` and `siw` on its Ethernet interface, which lets nothing of this out, ours over loopback. Aims: twice
the bandwidth of the kernel's stack of the same protocol, and no more latency.

| work | Linux | Verbatim | ratio | aim | met |
|---|---|---|---|---|---|
"""
# Runs one pair of programs of perftest in the guest; the words around them come from the stack.
PAIR = """{prepare}
{run} {program} {words} >/tmp/server 2>&1 &
server=$!
until netstat -ltn | grep -q ':18515 ' || ! kill -0 $server; do usleep 50000; done
{run} {program} {words} {host}
status=$?
[ $status = 0 ] || kill $server 2>/dev/null
wait
exit $status
"""


@dataclass(frozen=True)
class Stack:
    name: str
    words: str
    prepare: str
    run: str = ""  # Ours: in a network namespace of its own, for rxe has taken RoCE's port in the first one.


def link(stack, other):
    return f"rdma link del {other}0 2>/dev/null; rdma link add {stack}0 type {stack} netdev eth0 2>/dev/null"


OWN_NETWORK = "ip link set lo up"
OURS = "env VERBATIM_PATH=wire /tmp/verbatim/bin/verbatim run --node {protocol} --address 127.0.0.1 --protocol {protocol} --"
PAIRS = (
    (Stack("rdma_rxe", "-d rxe0 -x 1", link("rxe", "siw")),
     Stack("RoCE v2", "-x 1", OWN_NETWORK, OURS.format(protocol="roce"))),
    (Stack("siw", "-d siw0 -R", link("siw", "rxe")),
     Stack("iWARP", "-R", OWN_NETWORK, OURS.format(protocol="iwarp"))),
)


@dataclass(frozen=True)
class Work:
    name: str
    program: str
    column: int  # Of perftest's last row.
    unit: str
    scale: float

    def aim(self):
        return ("at most 1", lambda ratio: ratio <= 1) if self.unit == "us" else ("at least 2", lambda ratio: ratio >= 2)


WORKS = (
    Work("`ib_write_bw`, 4 KiB", "ib_write_bw -F -D 2 -s 4096", 3, "MB/s", MIB / 1e6),
    Work("`ib_write_bw`, 64 KiB", "ib_write_bw -F -D 2 -s 65536", 3, "MB/s", MIB / 1e6),
    Work("`ib_send_lat`, 8 B", "ib_send_lat -F -n 2000 -s 8", 4, "us", 1),
)


def install(guest, build):
    """Verbatim and what it loads, into the guest's memory."""
    ours = pathlib.Path(guest.share, "verbatim")
    for folder in ("bin", "lib"):
        (ours / folder).mkdir(parents=True)
    libraries = pathlib.Path(guest.share, "libraries")
    libraries.mkdir()
    files = ["bin/verbatim", "bin/verbatimd", *(f"lib/{path.name}" for path in pathlib.Path(build, "lib").glob("*.so*"))]
    for name in files:
        shutil.copy(f"{build}/{name}", ours / name)
        listing = subprocess.run(["ldd", f"{build}/{name}"], check=True, text=True, stdout=subprocess.PIPE).stdout
        for path in (line.split()[2] for line in listing.splitlines() if "=> /" in line):
            if not path.startswith(f"{build}/"):
                shutil.copy(path, libraries)
    guest.run("cp -r verbatim /tmp/; for it in libraries/*; do [ -e /usr/lib/x86_64-linux-gnu/${it##*/} ] || "
              "cp $it /usr/lib/x86_64-linux-gnu/; done")


def measure(guest, stack, work):
    script = PAIR.format(prepare=stack.prepare, run=stack.run, program=work.program, words=stack.words,
                         host="127.0.0.1" if stack.run else peer.ADDRESS)
    name = pathlib.Path(guest.share, "pair")
    name.write_text(script, encoding="utf-8")
    for attempt in range(TRIES):
        job = guest.start(f"{'unshare -n ' if stack.run else ''}sh /host/pair")
        try:
            job.expect_success(SECONDS_MAX)
            return last_row(job.output())[work.column] * work.scale
        except Failure as failure:
            if attempt + 1 == TRIES:
                raise Failure(f"{stack.name}, {work.name}: {failure}\n{job.output()}") from failure
    raise AssertionError


def figure(values, unit):
    return f"{statistics.median(values):.4g} {unit} ({min(values):.3g} to {max(values):.3g})"


def rows(results):
    for (work, theirs, ours), rounds in results.items():
        ratios = [own / other for other, own in rounds]
        aim, is_met = work.aim()
        cells = (work.name, f"{theirs.name}: {figure([other for other, _ in rounds], work.unit)}",
                 f"{ours.name}: {figure([own for _, own in rounds], work.unit)}",
                 f"{statistics.median(ratios):.3g} ({min(ratios):.3g} to {max(ratios):.3g})",
                 aim, "yes" if is_met(statistics.median(ratios)) else "no")
        yield f"| {' | '.join(cells)} |\n"


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md")
    options = parser.parse_args()
    build = str(pathlib.Path(options.build).resolve())
    peer.enter_network(f"{build}/guest")
    results = {}
    with Lab(options) as lab, peer.Guest(lab.folder, f"{build}/guest", "rxe") as guest:
        install(guest, build)
        for number in range(options.rounds):
            print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
            for work in WORKS:
                for theirs, ours in PAIRS:
                    found = measure(guest, theirs, work), measure(guest, ours, work)
                    results.setdefault((work, theirs, ours), []).append(found)
        table = HEAD.format(version=guest.version, rounds=options.rounds) + "".join(rows(results))
    print(table)
    if options.write:
        report.write_section(ROOT / "docs" / "benchmarks.md", HEADING, HEADING + table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
