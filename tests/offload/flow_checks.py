"""What becomes of flows: they are offloaded, counted, changed and deleted."""

import os
import re
import signal
import threading

from setup import expect, until


def ports_are_offloaded(setup):
    log = (setup.folder / "ovs-vswitchd.log").read_text(encoding="utf-8")
    for port in setup.ports:
        expect(f"{port}: Assigned flow API 'dpdk_flow_api'" in log, f"{port} has no flow API")
        expect("driver_name=net_verbatim" in setup.vsctl("get", "Interface", port, "status"), f"{port}'s driver")
    setup.expect_quiet_log()


def counters_are_exact(setup):
    setup.count_by_port()
    expect(setup.lost(0, "10.9.0.2", 1000, 0.002) == 0, "pings are lost")
    until(lambda: [setup.packets_of(f"icmp,in_port={port}") for port in setup.functions] == [1000, 1000],
          "OpenFlow does not count 1000 packets")
    expect(setup.offloaded() >= 2, "not offloaded")
    setup.rules("actions=NORMAL")


def counters_are_exact_under_dumps(setup):
    """Somebody dumps all the time. To be called before there is other traffic."""
    setup.count_by_port()
    dumps = threading.Thread(target=setup.switch, args=(
        "sh", "-c", "until [ -e $OVS_RUNDIR/enough ]; do ovs-appctl dpctl/dump-flows >/dev/null; done"))
    dumps.start()
    lost = setup.lost(0, "10.9.0.2", 2000, 0.002)
    (setup.folder / "enough").touch()
    dumps.join()
    expect(lost == 0, "pings are lost")
    until(lambda: setup.packets_of(f"icmp,in_port={setup.functions[0]}") == 2000, "OpenFlow does not count 2000 packets")


def software_sees_almost_nothing(setup):
    setup.warm_up()
    setup.expect_offload()


def show_tells_what_runs(setup):
    setup.warm_up()
    told = setup.command("show").stdout
    expect(re.search(rf"process {setup.process()}; of \d+ flows [1-9]\d* are offloaded, \d+ wait", told), told)
    expect(f"bridge br0: {' '.join(sorted(setup.ports))}\n" in told and "card 'ovs': " in told, told)


def flows_outlive_a_stop(setup):
    for number in range(2):  # What is asked meanwhile goes to software.
        setup.machine(number, "ping", "-c", "3", "-i", "0.3", "-q", "10.9.0.100")
        setup.machine(number, "ip", "neigh", "change", "10.9.0.100", "dev", "eth0", "nud", "permanent")
        setup.wire("ip", "neigh", "change", f"10.9.0.{number + 1}", "dev", "eth0", "nud", "permanent")
    setup.appctl("revalidator/purge")
    setup.warm_up("10.9.0.100")
    os.kill(setup.process(), signal.SIGSTOP)
    try:
        expect(setup.lost(0, "10.9.0.100", 20, 0.1) == 0, "offloaded traffic stopped with ovs-vswitchd")
        expect(setup.lost(1, "10.9.0.100", 5, 0.1) == 100, "a flow that nobody has decided was forwarded")
        told = setup.command("show").stdout
        expect(f"process {setup.process()}, stopped" in told and "card 'ovs': " in told, told)
    finally:
        os.kill(setup.process(), signal.SIGCONT)
    until(lambda: setup.lost(1, "10.9.0.100", 3, 0.1) == 0, "new flows do not recover")


def rdma_nodes_use_functions(setup):
    """RoCE v2 between two nodes, each in a machine of its own: the card forwards it."""
    def node(number):
        return [setup.verbatim, "run", "--node", f"n{number}", "--address", f"10.9.0.{number + 1}", "--"]

    bandwidth = ["ib_write_bw", "-x", "1", "-s", "65536", "-n", "500"]
    server = threading.Thread(target=setup.machine, args=(1, *node(1), *bandwidth))
    server.start()
    until(lambda: ":18515" in setup.machine(1, "ss", "-lnt"), "the server does not listen")
    before = setup.offloaded_bytes()
    told = setup.machine(0, *node(0), *bandwidth, "10.9.0.2")
    server.join()
    expect(re.search(r"^ *65536 +500 ", told, re.MULTILINE), told)
    until(lambda: setup.offloaded_bytes() - before > 500 * 65536 / 2, "software has forwarded it")


def live_flows_stay(setup):
    """To be called with max-idle=2000."""
    setup.warm_up()
    ping = setup.start(0, "ping", "-c", "40", "-i", "0.2", "-q", "10.9.0.2")
    while ping.poll() is None:
        expect(setup.offloaded() >= 2, "a live flow was deleted")
    until(lambda: setup.offloaded() == 0, "an idle flow lives on")
    until(lambda: setup.card()["rules"] == 0, "rules stay in the card")


def idle_flows_end(setup):
    setup.vsctl("set", "Open_vSwitch", ".", "other_config:max-idle=500")
    until(lambda: "ipv4" not in setup.switch("verbatim", "nic", "flows", "--name", "ovs"), "rules stay in the card")


def packets_do_not_wait_for_a_slow_card(setup):
    """50 ms a rule: the queue rises and drains."""
    ports = [("up0", ""), *((port, f",representor={port}") for port in setup.functions)]
    for port, _ in ports:
        setup.vsctl("del-port", "br0", port)
    for port, words in ports:  # The device is attached anew, with other arguments.
        setup.vsctl("add-port", "br0", port, "--", "set", "Interface", port, "type=dpdk",
                    f'options:dpdk-devargs="{setup.devargs},delay=50{words}"')
    setup.rules("priority=1,actions=NORMAL",
                "priority=9,udp,actions=move:NXM_OF_UDP_DST[]->NXM_NX_REG1[0..15],NORMAL")
    until(lambda: setup.lost(0, "10.9.0.2", 3, 0.1) == 0, "no traffic after the ports are back")
    setup.machine(0, "python3", "-c", "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
                  "for port in range(3000, 3060): s.sendto(b'x', ('10.9.0.2', port))")
    ping = setup.start(0, "ping", "-c", "40", "-i", "0.05", "-q", "10.9.0.2")
    most = 0
    while ping.poll() is None:
        most = max(most, setup.backlog())
    expect(most >= 20, f"the backlog was {most} at most")
    expect(" 0% packet loss" in ping.stdout.read(), "pings are lost meanwhile")
    until(lambda: setup.backlog() == 0, "the backlog does not drain")


def software_finds_flows_by_marks(setup):
    """A meter cannot be offloaded."""
    setup.warm_up()
    setup.switch("ovs-ofctl", "-O", "OpenFlow13", "add-meter", "br0", "meter=1,pktps,bands=type=drop,rate=1000000")
    one, two = setup.functions
    for come, go in ((one, two), (two, one)):
        setup.switch("ovs-ofctl", "-O", "OpenFlow13", "add-flow", "br0",
                     f"icmp,in_port={come},actions=meter:1,output:{go}")
    setup.lost(0, "10.9.0.2", 10, 0.1)
    until(lambda: setup.appctl("dpctl/dump-flows", "-m", "type=partially-offloaded").count("offloaded:partial") >= 2,
          "not partially offloaded")
    setup.lost(0, "10.9.0.2", 30, 0.02)
    expect(setup.seen_by_software("phwol hits") >= 30, "software does not see the marks")


def flows_change(setup):
    setup.count_by_port()
    ping = setup.start(0, "ping", "-c", "100", "-i", "0.05", "-q", "10.9.0.2")
    until(lambda: setup.packets_of("icmp,in_port=vf0") >= 20, "no packets")
    setup.switch("ovs-ofctl", "mod-flows", "br0", "icmp,in_port=vf0,actions=output:up0,output:vf1")
    until(lambda: re.search(r"in_port\(vf0\).*actions:(up0,vf1|vf1,up0)",
                            setup.appctl("dpctl/dump-flows", "-m", "--names", "type=offloaded")),
          "the changed flow is not offloaded")
    expect(" 0% packet loss" in ping.communicate()[0], "pings are lost")
    # A change is destroy and create: what the rule counted after its last query is lost in Open vSwitch 3.1, with any card.
    until(lambda: setup.packets_of("icmp,in_port=vf0") >= 85, "OpenFlow lacks packets")
    expect(setup.packets_of("icmp,in_port=vf0") <= 100, "packets are counted twice")


def four_threads_offload(setup):
    """To be called with n-offload-threads=4."""
    setup.warm_up()
    setup.rules("priority=1,actions=NORMAL", "priority=9,udp,actions=move:NXM_OF_UDP_SRC[]->NXM_NX_REG0[0..15],"
                "move:NXM_OF_UDP_DST[]->NXM_NX_REG1[0..15],NORMAL")
    setup.machine(0, "python3", "-c", """
import socket, time
sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(4)]
for i in range(4000):
    sockets[i & 3].sendto(b'x', ('10.9.0.2', 3000 + (i >> 2)))
    if i % 50 == 0: time.sleep(0.01)
""")
    counts = []

    def are_offloaded():
        counts[:] = [setup.appctl("dpctl/dump-flows", *words).count("in_port") for words in ((), ("type=offloaded",))]
        return counts[1] >= 3000 and counts[0] - counts[1] <= 20

    until(are_offloaded, lambda: f"{counts[1]} of {counts[0]} flows are offloaded")
