"""Nodes whose interfaces are functions that are rings: vf2 and vf3, without an interface of the kernel's, by Open vSwitch.
Their programs are where Open vSwitch is, and their own TCP connections are the loopback interface's."""

import os
import re
import signal
import subprocess

from setup import PATIENCE, expect, until

RINGS = ["--vfs", "4", "--rings", "vf2,vf3"]
# perftest's tables have a line for the size.
BANDWIDTH = ["ib_write_bw", "-x", "1", "-n", "3000"]
PING_PONG = ["ibv_rc_pingpong", "-g", "1", "-c", "-n", "500"]


def node(setup, number, *words, roce="v2"):
    """The words that run a program on node 2 or 3."""
    return [setup.verbatim, "nic", "ovs", "shell", "--", "verbatim", "run", "--node", f"n{number}", "--address",
            f"10.9.0.{number + 1}", "--function", f"ovs/vf{number}", "--roce", roce, "--", *words]


def serve(setup, *program, roce="v2"):
    server = subprocess.Popen(node(setup, 3, *program, roce=roce), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              start_new_session=True)
    until(lambda: ":18515" in setup.switch("ss", "-lnt") or server.poll() is not None, f"{program[0]} does not listen")
    return server


def both(setup, *program, roce="v2"):
    """Runs a program on both; returns the exit status of each, and what they have said."""
    server = serve(setup, *program, roce=roce)
    client = subprocess.run(node(setup, 2, *program, "127.0.0.1", roce=roce), text=True, check=False, capture_output=True,
                            timeout=2 * PATIENCE)
    if client.returncode != 0:
        os.killpg(server.pid, signal.SIGKILL)  # It may wait for ever.
    told = server.communicate(timeout=PATIENCE)[0]
    return client.returncode, server.returncode, client.stdout + client.stderr + told


def expect_both(setup, *program, roce="v2"):
    *codes, told = both(setup, *program, roce=roce)
    expect(codes == [0, 0], f"{program} over RoCE {roce}: {codes} {told}")
    return told


def nodes_on_rings_are_offloaded(setup):
    for roce in ("v2", "v1"):
        expect_both(setup, *PING_PONG, roce=roce)
        before = setup.card("stats")["ports"][3]["offloaded_bytes"]
        told = expect_both(setup, *BANDWIDTH, roce=roce)
        expect(re.search(r"\n +65536 +3000 ", told), told)
        offloaded = setup.card("stats")["ports"][3]["offloaded_bytes"] - before
        expect(offloaded >= 0.9 * 3000 * 65536, f"{offloaded} bytes of RoCE {roce} went by the card alone")
    setup.expect_quiet_log()


def rules_decide_on_nodes(setup):
    """A drop, and VLANs: it is the switch that lets a packet pass."""
    for roce, match in (("v2", "udp,in_port=vf2,tp_dst=4791"), ("v1", "in_port=vf2,dl_type=0x8915")):
        expect_both(setup, *PING_PONG, roce=roce)
        setup.rules("priority=1,actions=NORMAL", f"priority=9,{match},actions=drop")
        client, _, told = both(setup, *PING_PONG, roce=roce)
        expect(client != 0 and "retry counter exceeded" in told, told)
        until(lambda match=match: setup.packets_of(match) > 0, f"no packet of {match} is counted")
        setup.rules("priority=1,actions=NORMAL")
        expect_both(setup, *PING_PONG, roce=roce)
    for ports, may_pass in ((["vf2"], False), (["vf2", "vf3"], True)):
        for port in ports:
            setup.vsctl("set", "Port", port, "tag=42")
        expect((both(setup, *PING_PONG)[0] == 0) == may_pass, f"{ports} are in VLAN 42 alone")


def nodes_go_on_without_vswitch(setup):
    """While Open vSwitch is stopped, and when it is back."""
    expect_both(setup, *PING_PONG)
    words = ["ib_write_bw", "-x", "1", "-D", "6"]
    server = serve(setup, *words)
    client = subprocess.Popen(node(setup, 2, *words, "127.0.0.1"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def grows():
        before = setup.offloaded_bytes()
        until(lambda: setup.offloaded_bytes() > before + (1 << 24), "nothing is offloaded")

    grows()
    os.kill(setup.process(), signal.SIGSTOP)
    try:
        grows()
    finally:
        os.kill(setup.process(), signal.SIGCONT)
    for process in (client, server):
        told = process.communicate(timeout=PATIENCE)[0]
        expect(process.returncode == 0, told)
