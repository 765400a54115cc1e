#!/usr/bin/env python3
"""Checks that each test that SECURITY.md names is there, and that its bounds are the code's."""

import argparse
import pathlib
import re
import sys

NAME = re.compile(r"`([a-z_]+\.[A-Za-z0-9_.*]+)`")
# Rooms whose test programs are named room_folder.
ROOMS = ("fabric", "offload", "transport", "ulp")


# Words of SECURITY.md, with {} where the number is; the file, and what stands before the number there.
BOUNDS = (
    ("keeps {} rules", "src/offload/card/nicd.cpp", r'std::string rules = "'),
    ("at most {} masks", "src/offload/switch/flow_table.h", "masks = "),
    ("{} pieces of the driver's memory", "src/offload/card/guarded_mapping.h", "kMappingsMax = "),
    ("queues of {} buffers a port", "src/offload/ring/layout.h", "VNIC_SLOTS "),
    ("{} connections, one driver", "src/offload/card/card.cpp", "kClientsMax = "),
    ("at most {} bytes. Tests: `offload_switch.Switch.RefusesHalfATunnel`", "src/offload/switch/frames/tunnel.h",
     "kTunnelHeaderMax = "),
    ("keep {} neighbours", "src/ulp/ipoib/neighbours.h", "kNeighboursMax = "),
    ("with {} and 16 packets that wait", "src/ulp/ipoib/neighbours.h", "kWaiting = "),
    ("with 3 and {} packets that wait", "src/ulp/ipoib/neighbours.h", "kWaitingOfPath = "),
    ("packets: {} routes", "src/ulp/ipoib/datagram_sender.h", "kRoutesMax = "),
    ("routes, {} groups", "src/ulp/ipoib/groups.h", "kGroupsMax = "),
    ("peers have {} connections to it", "src/ulp/ipoib/arrivals.h", "kMax = "),
    ("and {} of one port", "src/ulp/ipoib/arrivals.h", "kOfOnePort = "),
    ("it makes {}, with", "src/ulp/ipoib/connections.h", "kConnectionsMax = "),
    ("with {} packets waiting and", "src/ulp/ipoib/connections.h", "kWaiting = "),
    ("waiting and {} in flight", "src/ulp/ipoib/connections.h", "kInFlight = "),
    ("RDS broker keep {} peers", "src/ulp/rds/broker.h", "peers_max = "),
    ("of each {} MiB of messages", "src/ulp/rds/broker.h", "held_bytes_max = "),
    ("and {} MiB of fragments", "src/ulp/rds/wire/header.h", "kMessageBytesMax = "),
    ("and {} answers to pings", "src/ulp/rds/broker_peers.cpp", "kWaitingMax = "),
    ("start a broker, once in {} seconds at most", "src/agent/server/on_demand.h", "kBetweenStarts = "),
    ("the broker ends {}", "src/ulp/rds/driver/rds_service.cpp", "kPatienceWithPeers = "),
    ("LNet keep {} names", "src/ulp/lnet/node.h", "kPeersMax = "),
    ("names, {} connections", "src/ulp/lnet/driver/links.cpp", "kConnectionsMax = "),
    ("with {} receives of 4 KiB together", "src/ulp/lnet/driver/links.cpp", "kReceives = "),
    ("{} messages that wait for each", "src/ulp/lnet/connection.h", "kWaitingMax = "),
    ("and {} buffers of 1 MiB together", "src/ulp/lnet/driver/lnet_service.cpp", "kBuffers = "),
    ("keep {} commands a session", "src/ulp/iscsi/sessions.h", "window = "),
    ("session, {} sessions", "src/ulp/target/iscsi_part.h", "kSessions = "),
    ("{} KiB of keys in", "src/ulp/iscsi/wire/text.h", "kTextBytesMax = "),
    ("keys in {} keys", "src/ulp/iscsi/wire/text.h", "kKeysMax = "),
    ("and {} s of a login", "src/ulp/iscsi/connection.h", "kLoginTime = "),
    ("keep {} requests a channel", "src/ulp/srp/port.h", "requests = "),
    ("{} channels a session and", "src/ulp/srp/port.h", "channels_per_session = "),
    ("a session and {} in all", "src/ulp/target/srp_part.h", "kChannels = "),
    ("its {} buffers of 256 KiB", "src/ulp/disk/disk_thread.cpp", "kBuffers = "),
    ("buffers of {} KiB", "src/ulp/disk/disk_thread.cpp", "kBufferBytes = "),
    ("makes us keep {} MiB of data", "src/ulp/disk/vhost/block.h", "kDataBytesMax = "),
    ("more than {} controllers", "src/ulp/nvmeof/controller.h", "controllers = "),
    ("controllers, {} connections", "src/ulp/target/target_service.cpp", "kConnectionsMax = "),
    ("connections, {} I/O queues", "src/ulp/nvmeof/controller.h", "io_queues = "),
    ("I/O queues of {} commands", "src/ulp/nvmeof/controller.h", "queue_entries = "),
    ("keeps {} registrants", "src/ulp/nvmeof/reservations/reservations.h", "kRegistrantsMax = "),
    ("controller {} refused", "src/ulp/nvmeof/notices/error_log.h", "kEntriesMax = "),
    ("commands and {} notices", "src/ulp/nvmeof/notices/notices.h", "kReservationsMax = "),
    ("says nothing is gone after {} s", "src/ulp/nvmeof/queue_connection.h", "kConnectPatience = "),
    ("has {} calls open", "src/ulp/rpcrdma/client_connection.h", "calls_max = "),
    ("and {} receives of 4 KiB; who", "src/ulp/rpcrdma/gateway/nfs_service.cpp", "kReceives = "),
    ("more than {} directories", "src/ulp/target_tree/tree.h", "kNodesMax = "),
    ("directories and {} MiB", "src/ulp/target_tree/tree.h", "kBytesMax = "),
    ("MiB, {} connections, and", "src/ulp/target/tree/tree_socket.h", "kConnectionsMax = "),
    ("and {} with 64 KiB each", "src/ulp/target/tree/system_bus.h", "kConnectionsMax = "),
)
# What a number is counted in, and how the code says so.
UNITS = {"MiB": 1 << 20, "KiB": 1 << 10}


def bound_faults(root, text):
    """Returns a line for each bound that the page says otherwise than the code."""
    plain = " ".join(text.split())
    for words, path, before in BOUNDS:
        said = re.search(re.escape(words).replace(r"\{\}", r"([\d,]+)"), plain)
        found = re.search(re.escape(before) + r"([\d' <]+)", (root / path).read_text(encoding="utf-8"))
        if not said or not found:
            yield f"'{words}' is not in SECURITY.md" if not said else f"{path} has no '{before}'"
            continue
        unit = next((size for name, size in UNITS.items() if words.split("{}")[1].startswith(f" {name}")), 1)
        number = eval(found[1].replace("'", ""))  # pylint: disable=eval-used  # Digits and "<<" alone.
        if int(said[1].replace(",", "")) * unit != number:
            yield f"SECURITY.md says '{words.format(said[1])}', and {path}: {before}{found[1].strip()}"


def folder_of(root, group):
    """Where the tests of a program are: `ulp_sdp` is that of src/ulp/sdp."""
    room, _, name = group.partition("_")
    if group == "sim":
        return root / "sim"
    return root / "src" / (f"{room}/{name}" if room in ROOMS and name else group)


def is_test(root, name):
    group, rest = name.split(".", 1)
    if group in ("attacks", "files", "programs", "offload"):
        folder = root / "tests" / group
        return (folder / f"test_{rest}.py").exists() or re.search(
            rf"\b{rest}\b", (folder / "CMakeLists.txt").read_text(encoding="utf-8")) is not None
    suite, _, test = rest.partition(".")
    pattern = re.compile(rf"TEST(_F|_P)?\({'.*' if suite == '*' else suite}, "
                         rf"{'.*' if test in ('*', '') else test}\)")
    tests = folder_of(root, group).rglob("*_test.cpp")
    return any(pattern.search(path.read_text(encoding="utf-8")) for path in tests)


def promises_of(text):
    """Returns the items of the lists between the first heading and the section of what is not promised."""
    lists = text.split("\n## ", 1)[1].split("\n## What is inherent", 1)[0]
    return re.findall(r"^- (?:.|\n(?=  ))+", lists, flags=re.MULTILINE)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", type=pathlib.Path, help="root of the source tree")
    root = parser.parse_args().root
    text = (root / "SECURITY.md").read_text(encoding="utf-8")
    names = NAME.findall(text)
    faults = [f"SECURITY.md names {name}, and there is no such test" for name in names if not is_test(root, name)]
    faults += [f"SECURITY.md: no test for: {promise}" for promise in promises_of(text) if not NAME.search(promise)]
    faults += bound_faults(root, text)
    if len(promises_of(text)) < 15:
        faults.append("SECURITY.md: its promises are not found")
    print("\n".join(faults) or f"all {len(names)} tests are there, and {len(BOUNDS)} bounds are the code's")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
