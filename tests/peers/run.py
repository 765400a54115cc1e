#!/usr/bin/env python3
"""Our nodes with Linux's own rdma_rxe or siw, which runs in a guest under QEMU: every row of table.py,
each side as server and as client. Prints a line for each; --write also writes docs/compatibility.md."""

import fnmatch
import os
import re
import shutil
import sys
import time
from collections import defaultdict

import guest as peer
from table import ROWS

sys.path.insert(0, os.path.join(peer.HERE, "..", "compat"))

import report
from testbed import Failure, Testbed, listens, option_parser, wait_until

OURS, THEIRS = "ours", "theirs"
ROOT = os.path.abspath(os.path.join(peer.HERE, "..", ".."))
OUR_PROGRAMS = ("peer_session", "peer_cm")
PROTOCOLS = {"rxe": "roce", "siw": "iwarp"}
NODE = "host"
SETTLE_SECONDS = 30  # Time for a server to end after its client.
# siw (6.1) fails a SEND that was sent completely if the connection ends before its call to TCP
# returns, which is late in a guest (docs/decisions.md). perftest's last message is such a SEND; the
# measurement is complete by then.
END_FOUND_TOO_EARLY = re.compile(r"^ *\d+ +\d+ +[\d.]+ .*Bad wc status 2.*Failed to close connection",
                                 re.MULTILINE | re.DOTALL)


class Encounter:
    """A row with the server on one of the two sides."""

    def __init__(self, testbed, guest, row, server_side):
        self.testbed, self.guest, self.row, self.server_side = testbed, guest, row, server_side

    def run(self):
        """Returns the client's output."""
        server = self._start(self.server_side, self.row.argv(self.row.server))
        self._wait_for_listener(server)
        client_side = OURS if self.server_side == THEIRS else THEIRS
        client = self._start(client_side, self._client_argv())
        self._await_client(client, client_side)
        server.expect_success(SETTLE_SECONDS)
        return client.output()

    def _await_client(self, client, side):
        try:
            client.expect_success(self.row.seconds)
        except Failure:
            is_siw = side == THEIRS and self.guest.stack == "siw"
            if not is_siw or not END_FOUND_TOO_EARLY.search(client.output()):
                raise

    def _client_argv(self):
        hosts = {(OURS, 4): peer.OUR_ADDRESS, (OURS, 6): peer.OUR_ADDRESS_6,
                 (THEIRS, 4): peer.ADDRESS, (THEIRS, 6): peer.ADDRESS_6}
        return [*self.row.argv(self.row.client), hosts[self.server_side, self.row.host_ip()]]

    def _start(self, side, argv):
        if side == THEIRS:
            program = f"/host/{argv[0]}" if argv[0] in OUR_PROGRAMS else argv[0]
            return self.guest.start(" ".join([program, *argv[1:]]))
        program = f"{self.testbed.build}/bin/{argv[0]}" if argv[0] in OUR_PROGRAMS else argv[0]
        return self.testbed.start(NODE, [program, *argv[1:]])

    def _wait_for_listener(self, server):
        if self.server_side == THEIRS:
            self.guest.wait_for_listener(self.row.port, server)
            return

        def ready():
            if server.ended():
                raise Failure(f"{server.name} ended before it listened")
            return listens(server.process.pid, self.row.port) or self.testbed.bound_ports(NODE)

        wait_until(ready, 20, f"{server.name} to listen")


def seen(row, output):
    """Returns (what was run, MTU or "") for each line that our program has printed; for other programs, the row."""
    family = " (IPv6)" if row.is_ours and row.ip == 6 else ""
    if not row.is_ours:
        return [(row.name(), "")]
    lines = re.findall(r"^passed: (?:(RC|UC|UD) (\d+) )?(.*)", output, re.MULTILINE)
    return [(f"{service} {what}".strip() + family, mtu) for service, mtu, what in lines]


def run_all(testbed, guest, rows):
    """Returns (what was run, side of the server) to the MTUs with which it passed."""
    passed = defaultdict(list)
    for row in rows:
        for server_side in row.server_sides:
            began = time.monotonic()
            output = Encounter(testbed, guest, row, server_side).run()
            print(f"passed in {time.monotonic() - began:5.1f} s, {server_side} serve: {row.name()}", flush=True)
            for what, mtu in seen(row, output):
                passed[what, server_side].append(mtu)
    return passed


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--stack", default="rxe", choices=peer.STACKS, help="Linux's")
    parser.add_argument("--mpa", default="", help="VERBATIM_MPA of our side")
    parser.add_argument("--write", action="store_true", help="write docs/compatibility.md")
    parser.add_argument("--list", action="store_true", help="say what would run")
    parser.add_argument("pattern", nargs="*", help="only rows whose client's arguments match")
    options = parser.parse_args()
    patterns = options.pattern or [""]
    rows = [row for row in ROWS if options.stack in row.stacks
            and any(fnmatch.fnmatch(row.name(), f"*{pattern}*") for pattern in patterns)]
    if options.list:
        print(*(row.name() for row in rows), sep="\n")
        return 0
    system = os.path.join(options.build, "guest")
    peer.enter_network(system)
    options.path = "wire"
    with Testbed(options) as testbed:
        testbed.set_addresses(NODE, peer.OUR_ADDRESS, peer.OUR_ADDRESS_6)
        testbed.set_variables(NODE, VERBATIM_PROTOCOL=PROTOCOLS[options.stack], VERBATIM_MPA=options.mpa)
        with peer.Guest(testbed.folder, system, options.stack) as guest:
            for program in OUR_PROGRAMS:
                shutil.copy(f"{testbed.build}/bin/{program}", guest.share)
            print(f"peer: {options.stack} of Linux {guest.version}", flush=True)
            passed = run_all(testbed, guest, rows)
            if options.write and not options.pattern:
                document = os.path.join(ROOT, "docs", "compatibility.md")
                report.write_peers(document, options.stack, guest.version, passed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
