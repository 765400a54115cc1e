#!/usr/bin/env python3
"""Fabrics of many shapes under Debian's opensm: data passes between hosts that are far from each other, the tables are
sound, and no port counts an error. Arguments are files of more topologies, such as recorded ones."""

import itertools
import os
import pathlib
import re
import sys

from fabricbed import FabricBed

from testbed import SKIPPED, Failure, are_installed, option_parser

HOSTS = 16
KINDS = ("fat-tree", "dragonfly+", "torus-2d", "torus-3d", "hypercube", "full-mesh")

# What recorded fabrics have: a line of the tool that failed, a switch whose ports are cabled to each other, links of
# several generations, hosts without a cable at port 1, hosts of one name, names that are no words.
GROWN = """src/query_smp.c:195; umad (DR path slid 0; dlid 0; 0,1,1,31 Attr 0x11:0) bad status 110; Connection timed out
#
# Topology file: generated on Mon Jun  1 10:00:00 2026
#
Non-Chassis Nodes

switchguid=0x10(10)
Switch	36 "S-0000000000000010"		# "MF0;old-switch:SX0000/U1" enhanced port 0 lid 40 lmc 0
[1]	"S-0000000000000010"[2]		# "MF0;old-switch:SX0000/U1" lid 40 4xQDR
[2]	"S-0000000000000010"[1]		# "MF0;old-switch:SX0000/U1" lid 40 4xQDR
[3]	"S-0000000000000020"[7]		# "Quantum Mellanox Technologies" lid 41 4xFDR
[4]	"H-0000000000000030"[2](32) 		# "node HCA-1" lid 5 4xQDR
[5]	"H-0000000000000040"[1](41) 		# "node HCA-1" lid 6 4xFDR10

switchguid=0x20(20)
Switch	41 "S-0000000000000020"		# "Quantum Mellanox Technologies" base port 0 lid 41 lmc 0
[7]	"S-0000000000000010"[3]		# "MF0;old-switch:SX0000/U1" lid 40 4xFDR
[8]	"H-0000000000000050"[1](51) 		# "other node HCA-2" lid 7 4xHDR
[41]	"H-0000000000000060"[1](61) 		# "Mellanox Technologies Aggregation Node" lid 8 2xHDR

caguid=0x30
Ca	2 "H-0000000000000030"		# "node HCA-1"
[2](32) 	"S-0000000000000010"[4]		# lid 5 lmc 0 "MF0;old-switch:SX0000/U1" lid 40 4xQDR

caguid=0x40
Ca	2 "H-0000000000000040"		# "node HCA-1"
[1](41) 	"S-0000000000000010"[5]		# lid 6 lmc 0 "MF0;old-switch:SX0000/U1" lid 40 4xFDR10

caguid=0x50
Ca	1 "H-0000000000000050"		# "other node HCA-2"
[1](51) 	"S-0000000000000020"[8]		# lid 7 lmc 0 "Quantum Mellanox Technologies" lid 41 4xHDR

caguid=0x60
Ca	1 "H-0000000000000060"		# "Mellanox Technologies Aggregation Node"
[1](61) 	"S-0000000000000020"[41]		# lid 8 lmc 0 "Quantum Mellanox Technologies" lid 41 2xHDR
"""


def daemon_bytes(bed):
    """The largest memory that the fabric's daemon has had."""
    (daemon,) = [pid for pid in bed.processes() if os.readlink(f"/proc/{pid}/exe").endswith("verbatim-fabricd")]
    text = pathlib.Path(f"/proc/{daemon}/status").read_text(encoding="ascii")
    return int(re.search(r"VmHWM:\s+(\d+) kB", text)[1]) << 10


def all_pairs_have_routes(bed, hosts):
    """As ibtracert walks through the switches' tables."""
    for (source, lid), (_, peer) in itertools.permutations(hosts, 2):
        text = bed.run(source, "ibtracert", str(lid), str(peer))
        if f" lid {peer}-{peer} " not in text.splitlines()[-1]:
            raise Failure(f"ibtracert {lid} {peer}: {text}")


def check_fabric(options, name, text, all_pairs):
    with FabricBed(options) as bed:
        bed.up(text, "--manager", "opensm")
        nodes = bed.status()["nodes"]
        # Hosts by GUID, for names may be twice.
        hosts = [(node["guid"], node["ports"][0]["lid"]) for node in nodes
                 if node["kind"] == "host" and node["ports"][0]["lid"] != 0]
        bed.wait_until_active(hosts[0][0])
        bed.run_pair(hosts[0][0], hosts[-1][0], "ib_write_bw", "-F", "-n", "200")
        if all_pairs:
            all_pairs_have_routes(bed, hosts)
        # Senders wait where links are slower than memory; that is no error.
        errors = bed.run(hosts[0][0], "ibqueryerrors", "--suppress", "PortXmitWait")
        if " 0 bad nodes found" not in errors:
            raise Failure(errors)
        findings = [line for line in bed.verbatim("fabric", "check", check=False).splitlines()
                    if not line.startswith("a credit loop")]  # opensm's default on tori.
        if findings:
            raise Failure("\n".join(findings))
        print(f"passed: {name}: {len(nodes)} nodes, {len(hosts)} hosts with LIDs, the daemon had at most "
              f"{daemon_bytes(bed) >> 20} MiB", flush=True)


def main():
    parser = option_parser(__doc__)
    parser.add_argument("files", nargs="*", type=pathlib.Path, help="more topologies")
    options = parser.parse_args()
    if not are_installed("opensm", "ibqueryerrors", "ibtracert", "ib_write_bw"):
        return SKIPPED
    check_fabric(options, "a grown one", GROWN, all_pairs=True)
    for kind in KINDS:
        with FabricBed(options) as bed:
            text = bed.verbatim("fabric", "generate", kind, "--hosts", str(HOSTS), "--switch-ports", "8")
        check_fabric(options, kind, text, all_pairs=kind == "fat-tree")
    for file in options.files:
        check_fabric(options, file.name, file.read_text(encoding="utf-8"), all_pairs=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
