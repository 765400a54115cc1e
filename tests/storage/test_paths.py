#!/usr/bin/env python3
"""One disk by two paths: two targets of ours, on two nodes, serve one file. Requests go on when a target is killed or
its cable is cut, go by it again when it is back, and what was acknowledged is there."""

import json
import os
import select
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))

from served_disk import SECONDS, TOOLS, ServedDisk
from test_disk import GUID, IQN, MEGABYTES, NQN, Bench as OnePath
from testbed import SKIPPED, Failure, Testbed, are_installed, option_parser, wait_until


class Bench(OnePath):
    """Targets on nodes a and c."""

    def __init__(self, testbed, options):
        super().__init__(testbed, options)
        testbed.set_variables("c", VERBATIM_PROTOCOL=self.protocol)
        self.disk = ("--file", self.empty_file(MEGABYTES << 20))
        self.names = {"iqn": IQN, "nqn": NQN, "guid": GUID}
        self.places = {node: f"{testbed.address(node)}:{testbed.free_port()}" for node in ("a", "c")}
        self.others = {node: f"{testbed.address(node)}:{testbed.free_port()}" for node in ("a", "c")}

    def url_of(self, node):
        place, iqn, nqn, guid = self.places[node], *self.names.values()
        # A target ends the older one of two sessions of the same initiator's port.
        extension = ",initiator_ext=2" if node == "c" else ""
        return {"iser": f"iser://{place}/{iqn}/0", "nvme": f"nvme://{place}/{nqn}/1",
                "srp": f"srp://id_ext={guid},ioc_guid={guid},dest={place}{extension}/0"}[self.scheme]

    def begin(self, node):
        place, iqn, nqn, guid = self.places[node], *self.names.values()
        names = {"iser": ("--iscsi", iqn, "--iscsi-listen", place, "--listen", self.others[node]),
                 "nvme": ("--nvme", nqn, "--listen", place),
                 "srp": ("--srp", guid + guid, "--srp-listen", place, "--listen", self.others[node])}[self.scheme]
        self.verbatim("target", "up", "--node", node, "--address", self.testbed.address(node), *self.disk, *names,
                      "--allow-any-initiator", "--allow-any-host", "--allow-any-srp-initiator")

    def kill(self, node):
        process = os.pidfd_open(json.loads(self.verbatim("target", "show", "--node", node, "--json"))["process"])
        signal.pidfd_send_signal(process, signal.SIGKILL)
        select.select([process], [], [], SECONDS)  # Until it has ended.
        os.close(process)

    def status(self):
        return json.loads(self.verbatim("disk", "show", "--json"))[0]

    def wait_for_paths(self, *expected):
        wait_until(lambda: [path["is_there"] for path in self.status()["paths"]] == list(expected), SECONDS,
                   f"paths {expected}")

    def goes_on(self):
        answered = self.status()["answered"]
        wait_until(lambda: self.status()["answered"] > answered + 100, SECONDS, "more requests to be answered")


def is_reached_by_two_paths(bench):
    for node in ("a", "c"):
        bench.begin(node)
    with ServedDisk(bench.testbed, bench.url_of("a"), bench.url_of("c")) as disk:
        bench.wait_for_paths(True, True)
        if "optimized" not in bench.verbatim("disk", "show"):
            raise Failure("show does not tell of the paths")
        disk.is_verified()

        def both_are_lost_in_turn():
            for node, left in (("a", (False, True)), ("c", (True, False))):
                bench.kill(node)
                bench.wait_for_paths(*left)
                bench.goes_on()
                bench.begin(node)
                bench.wait_for_paths(True, True)
        disk.is_verified_over(both_are_lost_in_turn)

        def a_cable_is_cut():
            bench.verbatim("fault", "a", "loss=100%")
            bench.wait_for_paths(False, True)
            bench.goes_on()
            bench.verbatim("fault", "a", "off")
            bench.wait_for_paths(True, True)
        if bench.has_cable:
            disk.is_verified_over(a_cable_is_cut)
    for node in ("a", "c"):
        bench.verbatim("target", "down", "--node", node)


def takes_no_other_disk(bench):
    """The targets' names differ, so their disks do."""
    bench.begin("a")
    first = bench.url_of("a")
    if bench.scheme == "srp":
        same = bench.url_of("c").replace(",initiator_ext=2", "")
        bench.expect_refusal(bench.url_of("a"), "say initiator_ext=2", same)
    bench.names = {"iqn": IQN + "2", "nqn": NQN + "2", "guid": GUID[:-1] + "3"}
    bench.begin("c")
    with ServedDisk(bench.testbed, first, bench.url_of("c")) as disk:
        wait_until(lambda: any("leads to disk" in path["words"] for path in bench.status()["paths"]), SECONDS,
                   "the objection")
        disk.qemu_io("write -P 7 0 1M", "read -P 7 0 1M")
        if sum(path["is_there"] for path in bench.status()["paths"]) != 1:
            raise Failure("another disk is taken for this one")
    for node in ("a", "c"):
        bench.verbatim("target", "down", "--node", node)


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--protocol", default="roce", choices=("roce", "iwarp"))
    parser.add_argument("--scheme", default="nvme", choices=("iser", "nvme", "srp"))
    options = parser.parse_args()
    if not are_installed(*TOOLS) or not os.path.exists(f"{options.build}/lib/nbdkit-verbatim-plugin.so"):
        return SKIPPED
    for part in (is_reached_by_two_paths, takes_no_other_disk):
        with Testbed(options) as testbed:
            part(Bench(testbed, options))
        print(f"passed: {part.__name__}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
