"""Ports: names of functions, MAC and link, other queues and MTUs, ports that are given back and taken again."""

from setup import expect, until

MAC = "02:00:00:00:00:77"


def plug(setup, port, representor):
    words = f",representor={representor}" if representor else ""
    setup.vsctl("add-port", "br0", port, "--", "set", "Interface", port, "type=dpdk",
                f'options:dpdk-devargs="{setup.devargs}{words}"')


def functions_have_the_names_of_mlx5(setup):
    for name in ("[1]", "vf1", "pf0vf1", "c1pf0vf1"):
        setup.vsctl("del-port", "br0", "vf1")
        plug(setup, "vf1", name)
        until(lambda: setup.lost(0, "10.9.0.2", 3, 0.1) == 0, f"{name} is not function 1")


def mac_and_link_are_the_switchs(setup):
    port = setup.functions[1]
    setup.vsctl("set", "Interface", port, f"options:dpdk-vf-mac={MAC}")
    until(lambda: MAC in setup.machine(1, "ip", "-br", "link", "show", "eth0"), "the function has another MAC")
    setup.switch("ovs-ofctl", "mod-port", "br0", port, "down")
    until(lambda: "NO-CARRIER" in setup.machine(1, "ip", "-br", "link", "show", "eth0"), "the link stays up")
    setup.switch("ovs-ofctl", "mod-port", "br0", port, "up")
    setup.machine(0, "ip", "neigh", "flush", "dev", "eth0")  # It knows the old MAC.
    until(lambda: setup.lost(0, "10.9.0.2", 3, 0.1) == 0, "no traffic when the link is up again")


def ports_get_other_queues_and_mtus(setup):
    """They stop and start, and their rules stay. To be called with memory for a second pool of packets: the first one
    of 262,144 takes all that it can, and Open vSwitch does not ask for less then."""
    setup.warm_up()
    ping = setup.start(0, "ping", "-c", "60", "-i", "0.05", "-q", "10.9.0.2")
    setup.vsctl("set", "Interface", "vf0", "options:n_rxq=2")
    setup.vsctl("set", "Interface", "vf1", "mtu_request=3000")
    expect(" 0% packet loss" in ping.communicate()[0], "pings are lost")
    setup.expect_offload()


def ports_are_plugged_again(setup):
    """Each of them: Open vSwitch treats the one by which it has attached the card otherwise."""
    setup.warm_up()
    for port in setup.ports:
        ping = setup.start(0, "ping", "-c", "20", "-i", "0.05", "-q", "10.9.0.2")
        setup.vsctl("del-port", "br0", port)
        plug(setup, port, None if port == "up0" else port)
        ping.wait()
        until(lambda: setup.lost(0, "10.9.0.2", 3, 0.1) == 0, f"no traffic after {port} is back")
        setup.warm_up("10.9.0.100")
        setup.warm_up()
