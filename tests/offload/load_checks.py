"""Many flows: more than the card has room for, and new ones without pause."""

import os
import pathlib
import re
import sys

from setup import expect, until

FULL = 60  # Rules.
# Of new flows a second, for how long, and the card's rules. OFFLOAD_LOAD=10000,60,4000 is the long set's.
RATE, SECONDS, ROOM = (int(word) for word in os.environ.get("OFFLOAD_LOAD", "1000,4,800").split(","))
# Each flow has a pair of ports of its own, and a second packet when `later` more flows have begun. It says how many flows a
# second there were.
SEND = """
import socket, sys, time
rate, count, first, later = map(int, sys.argv[1:])
sockets = []
for source in range(1 + count // 50000):
    sockets.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    sockets[-1].bind(('', 3000 + source))
def send(i): sockets[i // 50000].sendto(b'x' * 20, ('10.9.0.2', first + i % 50000))
began = time.monotonic()
for i in range(count):
    while i > (time.monotonic() - began) * rate: time.sleep(0.002)
    send(i)
    if later and i >= later: send(i - later)
print(round(count / (time.monotonic() - began)))
"""


def small_card(rules):
    """A file that the next card of Open vSwitch's reads."""
    folder = pathlib.Path(os.environ["XDG_RUNTIME_DIR"]) / "config"
    os.environ["XDG_CONFIG_HOME"] = str(folder)
    file = folder / "verbatim.d/nic/ovs.conf"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"rules = {rules}\n", encoding="utf-8")


def flow_for_each_pair_of_ports(setup):
    setup.rules("priority=1,actions=NORMAL", "priority=9,udp,actions=move:NXM_OF_UDP_SRC[]->NXM_NX_REG0[0..15],"
                "move:NXM_OF_UDP_DST[]->NXM_NX_REG1[0..15],NORMAL")


def send(setup, rate, count, first=5000, later=0):
    return setup.start(0, sys.executable, "-c", SEND, str(rate), str(count), str(first), str(later))


def full_card_leaves_the_rest_to_software(setup):
    """To be called with max-idle=3000 and a small card."""
    setup.warm_up()
    flow_for_each_pair_of_ports(setup)
    count = 4 * FULL
    setup.wire("true")
    before = udp_packets(setup)
    sender = send(setup, 200, count)
    most = 0
    while sender.poll() is None:
        most = max(most, setup.card()["rules"])
        expect(most <= FULL, f"{most} rules of {FULL}")
    expect(most >= FULL - 2, f"{most} of {FULL} rules are used")
    until(lambda: udp_packets(setup) - before >= count, "packets of flows beyond the card's room are lost")
    until(lambda: setup.card()["rules"] <= 8, "idle flows stay")
    send(setup, 200, 20, first=40000).wait()
    until(lambda: setup.card()["rules"] >= 20, "there is room, and nothing is offloaded again")
    setup.expect_quiet_log()


def udp_packets(setup):
    """That machine 1 has received: nobody listens there."""
    told = setup.machine(1, "cat", "/proc/net/snmp")
    names, values = [line.split() for line in told.splitlines() if line.startswith("Udp:")]
    return int(values[names.index("NoPorts")])


def dropped_before_the_bridge(setup):
    """Packets of machine 0: its interface's queue was full, or software's."""
    told = setup.machine(0, "cat", "/sys/class/net/eth0/statistics/tx_dropped")
    return int(told) + sum(port["no_buffer_dropped"] for port in setup.card("stats")["ports"])


def resident_bytes(setup):
    """Of Open vSwitch with our driver."""
    status = pathlib.Path(f"/proc/{setup.process()}/status").read_text(encoding="utf-8")
    return int(re.search(r"VmRSS:\s*(\d+)", status)[1]) << 10


def flood(setup):
    """Sends new flows without pause while somebody pings. Returns how many rules there were at most, and how many packets
    were sent."""
    count = RATE * SECONDS
    sender = send(setup, RATE, count, later=RATE // 4)
    ping = setup.start(0, "ping", "-i", "0.1", "-q", "-w", str(SECONDS), "10.9.0.2")
    backlog, rules = 0, 0
    while sender.poll() is None:
        backlog, rules = max(backlog, setup.backlog()), max(rules, setup.card()["rules"])
        expect(rules <= ROOM, f"{rules} rules of {ROOM}")
    told = ping.communicate()[0]
    reached = sender.stdout.read().strip()
    lost = float(re.search(r"([0-9.]+)% packet loss", told)[1])
    until(lambda: setup.backlog() == 0, "the queue does not drain")
    counts = [setup.appctl("dpctl/dump-flows", *words).count("in_port") for words in ((), ("type=offloaded",))]
    print(f"      {reached} new flows a second: {rules} of {ROOM} rules at most, {backlog} waited at most, {lost} % of pings "
          f"lost; {counts[1]} of {counts[0]} flows offloaded at the end", flush=True)
    expect(lost <= 5, told)
    return rules, 2 * count - RATE // 4


def new_flows_fill_the_card(setup):
    """To be called with max-idle=3000, a card of ROOM rules and more flows than that. What the card has no room for is
    software's; there is room again when they are idle; and the same happens when it begins anew: nothing was leaked."""
    setup.warm_up()
    flow_for_each_pair_of_ports(setup)
    taken = resident_bytes(setup)
    for again in (False, True):
        counted, received, before = setup.packets_of("udp"), udp_packets(setup), dropped_before_the_bridge(setup)
        rules, sent = flood(setup)
        expect(rules >= ROOM - 2, f"{rules} of {ROOM} rules are used")
        until(lambda: setup.card()["rules"] <= 8, "idle flows stay")
        dropped = dropped_before_the_bridge(setup) - before
        until(lambda: setup.packets_of("udp") - counted >= sent - dropped,
              lambda: f"{setup.packets_of('udp') - counted} of {sent} are counted, {dropped} were dropped")
        expect(setup.packets_of("udp") - counted <= sent, "more are counted than were sent")
        lost = sent - dropped - (udp_packets(setup) - received)
        expect(lost <= sent // 100, f"{lost} of {sent} are lost in the bridge")
        print(f"      of {sent} packets {dropped} were dropped before the bridge, {lost} in it", flush=True)
        if again:  # Open vSwitch's own heaps grow for a while, without a card, too.
            expect(resident_bytes(setup) - taken <= 64 << 20, f"{taken}, then {resident_bytes(setup)} bytes of memory")
        taken = resident_bytes(setup)
    expect(setup.card()["driver"]["commands_refused"] == 0, "the card refused rules")
    expect(setup.card()["driver"]["faults"] == 0, "the card found faults")
    setup.expect_quiet_log()
