#!/usr/bin/env python3
"""texts.py ROOT: the namespace of link/, and documents that speak of folders."""
import pathlib, re, sys, subprocess
root = pathlib.Path(sys.argv[1])
for kit in (root / "tests").rglob("kit.*"):
    if kit.suffix in (".h", ".cpp"): kit.rename(kit.with_name("test_util" + kit.suffix))
def edit(name, *pairs):
    path = root / name; text = path.read_text()
    for old, new in pairs:
        if old not in text: print("NOT FOUND", name, old[:60]); continue
        text = text.replace(old, new)
    path.write_text(text)
edit("ARCHITECTURE.md",
 (" |   mover: UDP socket --------+------->|   mover                     |", " |   link: UDP socket ---------+------->|   link                      |"),
 ("ICRC → `mover` sends", "ICRC → `link` sends"),
 ("| mover | what carries packets", "| link | what carries packets"),
 ("`src/mover/`", "`src/link/`"),
 ("`adapter/direct_link`", "`adapter/direct/direct_link`"), ("(`direct_target`)", "(`arena/target.h`)"), ("`region/memory_file`", "`region/adoption/memory_file`"),
 ("`src/adapter/adapter.h`, `queue_pair.h`, `progress.h`", "`src/adapter/adapter.h`, `queue_pair/queue_pair.h`, `progress/progress.h`"),
 ("(of iWARP: `stream_manager.h`)", "(of iWARP: `cm/iwarp/stream_manager.h`)"))
edit("src/link/README.md", ("# mover: the only byte I/O", "# link: the only byte I/O"), ("`udp.h` has all of it:", "`udp/udp.h` has all of it:"), ("`neighbour.h` finds", "`ethernet/neighbour.h` finds"),
 ("(`ethernet.h`)", "(`ethernet/`)"), ("(`ethernet_segment.h`", "(`ethernet/ethernet_segment.h`"), ("(`packet_interface.h`)", "(`ethernet/packet_interface.h`)"), ("(`tcp_stream.h`)", "(`tcp/tcp_stream.h`)"))
edit("src/adapter/README.md", ("Wires the protocol engines to the movers", "Wires the protocol engines to the links"))
path = root / "src/adapter/README.md"; text = path.read_text()
path.write_text(re.sub(r"transport cm mad mover`", "transport cm mad arena link port`", text))
edit("tests/tree/check_security.py", ('folder.glob("*_test.cpp")', 'folder.rglob("*_test.cpp")'))
