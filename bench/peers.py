#!/usr/bin/env python3
"""Verbatim beside Linux's own rdma_rxe and siw, all of them in one guest under QEMU: perftest between
two endpoints of the guest, in turn, some rounds. Emulated processors are slow, for all alike: only the
ratios mean something. Prints a table in Markdown."""

import os
import re
import shutil
import statistics
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
sys.path.insert(0, os.path.join(ROOT, "tests", "peers"))

import guest as peer
from lab import Failure, Lab, option_parser

PORT = 18500
WORKS = {  # What is measured -> its command, the column of the figure, its unit.
    "`ib_write_bw`, 4 KiB": ("ib_write_bw -F -s 4096 -n 1000", 3, "MB/s"),
    "`ib_write_bw`, 64 KiB": ("ib_write_bw -F -s 65536 -n 200", 3, "MB/s"),
    "`ib_send_lat`, 8 B": ("ib_send_lat -F -s 8 -n 500", 4, "us"),
}
FOLDER = "/host/verbatim"  # In the guest.
LIBRARIES = "/usr/lib/x86_64-linux-gnu"


def of_verbatim(path):
    def command(node, address):
        return (f"XDG_RUNTIME_DIR=/tmp VERBATIM_PATH={path} {FOLDER}/bin/verbatim run --node {node} --address {address} --")
    return (f"{command('a', '127.0.0.2')} {{work}} -x 1", f"{command('b', '127.0.0.3')} {{work}} -x 1 127.0.0.2")


# Who -> the server's command, the client's. siw wants rdma_cm, which would find rxe0 at the same address.
STACKS = {
    "Verbatim, wire": of_verbatim("wire"),
    "Verbatim, direct": of_verbatim("auto"),
    "rdma_rxe": ("{work} -d rxe0 -x 1", f"{{work}} -d rxe0 -x 1 {peer.ADDRESS}"),
    "siw": ("{work} -R", f"{{work}} -R {peer.ADDRESS}"),
}
MODULES = {"rdma_rxe": ("rdma_rxe", "rxe"), "siw": ("siw", "siw")}


def install_verbatim(build, guest):
    """Verbatim into the shared folder, the libraries that it loads into the guest's own."""
    folder = os.path.join(guest.share, "verbatim")
    for part, names in (("bin", ("verbatim", "verbatimd")), ("more", ()),
                        ("lib", ("libibverbs.so.1", "librdmacm.so.1", "libisal.so.2", "libverbatim-view.so"))):
        os.makedirs(os.path.join(folder, part))
        for name in names:
            shutil.copy(os.path.join(build, part, name), os.path.join(folder, part, name))
    loaded = subprocess.run(["ldd", f"{build}/bin/verbatim", f"{build}/bin/verbatimd", f"{build}/lib/librdmacm.so.1"], check=True,
                            capture_output=True, text=True).stdout
    for library in set(re.findall(r"=> (/\S+)", loaded)):
        if not library.startswith(build):
            shutil.copy(library, os.path.join(folder, "more"))
    guest.run(f"for file in {FOLDER}/more/*; do [ -e {LIBRARIES}/${{file##*/}} ] || cp $file {LIBRARIES}/; done")


def measure(guest, stack, work, column):
    guest.run("while pidof verbatimd >/dev/null; do usleep 50000; done")
    for name, (module, kind) in MODULES.items():  # One at a time: rxe takes the port that we want, too.
        if name != stack:
            guest.run(f"! grep -q '^{module} ' /proc/modules || rmmod {module}")
        else:
            guest.run(f"modprobe {module}; rdma link show {kind}0/1 >/dev/null 2>&1 || "
                      f"rdma link add {kind}0 type {kind} netdev eth0")
    server_text, client_text = (text.format(work=f"{work} -p {PORT}") for text in STACKS[stack])
    server = guest.start(server_text)
    guest.wait_for_listener(PORT, server)
    client = guest.start(client_text)
    client.expect_success(120)
    server.expect_success(60)
    rows = re.findall(r"^ *\d+ +\d+ .*$", client.output(), re.MULTILINE)
    if not rows:
        raise Failure(f"{stack}: {work} printed no figures:\n{client.output()}")
    found = float(rows[-1].split()[column])
    if found == 0:
        raise Failure(f"{stack}: {work} measured nothing:\n{client.output()}")
    return found


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    system = os.path.join(options.build, "guest")
    peer.enter_network(system)
    figures = {}
    with Lab(options) as lab, peer.Guest(lab.folder, system, processors=4) as guest:
        install_verbatim(lab.build, guest)
        for _ in range(options.rounds):
            for what, (work, column, unit) in WORKS.items():
                for stack in STACKS:
                    found = measure(guest, stack, work, column)
                    figures.setdefault((what, stack), []).append(found)
                    print(f"{what}, {stack}: {found} {unit}", file=sys.stderr, flush=True)
    print(f"| | {' | '.join(STACKS)} |\n|---|{'---|' * len(STACKS)}")
    for what, (_, _, unit) in WORKS.items():
        cells = (f"{statistics.median(figures[what, stack]):.4g} {unit} "
                 f"({min(figures[what, stack]):.4g} to {max(figures[what, stack]):.4g})" for stack in STACKS)
        print(f"| {what} | {' | '.join(cells)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
