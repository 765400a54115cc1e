"""Many flows: more than the card has room for, and new ones without pause."""

import os
import pathlib
import re
import sys

from setup import expect, until

FULL = 60  # Rules.
# Of new flows a second, and for how long; OFFLOAD_LOAD=10000,60 where the machine is quiet.
RATE, SECONDS = (int(word) for word in os.environ.get("OFFLOAD_LOAD", "500,8").split(","))
# Each packet has a pair of ports of its own. It says how many a second it has sent.
SEND = """
import socket, sys, time
rate, count, first = map(int, sys.argv[1:])
sockets = []
for source in range(1 + count // 50000):
    sockets.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
    sockets[-1].bind(('', 3000 + source))
began = time.monotonic()
for i in range(count):
    while i > (time.monotonic() - began) * rate: time.sleep(0.002)
    sockets[i // 50000].sendto(b'x' * 20, ('10.9.0.2', first + i % 50000))
print(round(count / (time.monotonic() - began)))
"""


def small_card():
    """A file that the next card of Open vSwitch's reads."""
    folder = pathlib.Path(os.environ["XDG_RUNTIME_DIR"]) / "config"
    os.environ["XDG_CONFIG_HOME"] = str(folder)
    file = folder / "verbatim.d/nic/ovs.conf"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"rules = {FULL}\n", encoding="utf-8")


def flow_for_each_pair_of_ports(setup):
    setup.rules("priority=1,actions=NORMAL", "priority=9,udp,actions=move:NXM_OF_UDP_SRC[]->NXM_NX_REG0[0..15],"
                "move:NXM_OF_UDP_DST[]->NXM_NX_REG1[0..15],NORMAL")


def send(setup, rate, count, first=5000):
    return setup.start(0, sys.executable, "-c", SEND, str(rate), str(count), str(first))


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


def new_flows_without_pause(setup):
    """Of thousands of flows a second each is offloaded or software's; pings go on, and the queue drains."""
    setup.warm_up()
    flow_for_each_pair_of_ports(setup)
    sender = send(setup, RATE, RATE * SECONDS)
    ping = setup.start(0, "ping", "-i", "0.1", "-q", "-w", str(SECONDS), "10.9.0.2")
    backlog, rules = 0, 0
    while sender.poll() is None:
        backlog, rules = max(backlog, setup.backlog()), max(rules, setup.card()["rules"])
    told = ping.communicate()[0]
    reached = sender.stdout.read().strip()
    lost = float(re.search(r"([0-9.]+)% packet loss", told)[1])
    until(lambda: setup.backlog() == 0, "the queue does not drain")
    counts = [setup.appctl("dpctl/dump-flows", *words).count("in_port") for words in ((), ("type=offloaded",))]
    print(f"      {reached} new flows a second: {rules} rules at most, {backlog} waited at most, {lost} % of pings lost; "
          f"{counts[1]} of {counts[0]} flows offloaded at the end", flush=True)
    expect(rules >= min(RATE * SECONDS, 2000) / 2, f"{rules} rules at most")
    expect(lost <= 5, told)
    expect(setup.card()["driver"]["commands_refused"] == 0, "the card refused rules")
    setup.expect_quiet_log()
