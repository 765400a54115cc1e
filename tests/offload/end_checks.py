"""What becomes of the others when the card or Open vSwitch is killed."""

import os
import pathlib
import signal

from setup import expect, until


def start_card(setup):
    """A card in the place of one that was killed: the interfaces are where they were, and stay."""
    setup.switch("verbatim", "nic", "up", "--name", "ovs", "--vfs", "2", "--socket", f"{setup.folder}/card.sock")


def next_card_gets_all_rules(setup):
    """Under load, three times. Nobody plugs anything in anew."""
    setup.count_by_port()
    setup.warm_up()
    vswitchd, counted = setup.process(), 0

    def counters_go_on():
        nonlocal counted
        now = setup.packets_of("icmp,in_port=vf0")
        expect(now >= counted, f"counters went from {counted} to {now}")
        counted = now

    for _ in range(3):
        ping = setup.start(0, "ping", "-i", "0.005", "-q", "-w", "4", "10.9.0.2")
        before = setup.offloaded_bytes()
        until(lambda: setup.offloaded_bytes() > before + 2000, "no load")
        os.kill(setup.card()["process"], signal.SIGKILL)
        for _ in range(3):
            counters_go_on()
        start_card(setup)
        told = ping.communicate()[0]
        expect(" 100% packet loss" not in told, f"a gap without an end: {told}")
        until(lambda: setup.lost(0, "10.9.0.2", 3, 0.1) == 0, "no traffic by the next card")
        until(lambda: setup.card()["rules"] >= setup.offloaded() >= 2, "rules are missing")
        setup.expect_offload()
        counters_go_on()
    expect(setup.process() == vswitchd, "ovs-vswitchd has ended")
    os.kill(vswitchd, 0)
    setup.expect_quiet_log()


def next_vswitchd_connects(setup):
    """The rules of one that was killed go, and the card lives."""
    setup.warm_up()
    process = pathlib.Path(f"/proc/{setup.process()}")
    words = process.joinpath("cmdline").read_text(encoding="utf-8").split("\0")[1:-1]
    libraries = next(word for word in process.joinpath("environ").read_text(encoding="utf-8").split("\0")
                     if word.startswith("LD_LIBRARY_PATH="))
    card = setup.card()["process"]
    os.kill(setup.process(), signal.SIGKILL)
    until(lambda: setup.card()["rules"] == 0, "its rules stay")
    expect("has ended" in (told := setup.command("show").stdout), told)
    setup.switch("env", libraries, "bash", "-c", 'exec -a ovs-vswitchd "$0" "$@"',
                 "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk", *words)
    until(lambda: setup.lost(0, "10.9.0.2", 3, 0.1) == 0, "no traffic by the next one")
    setup.warm_up()
    expect(setup.card()["process"] == card, "the card has ended")


def paused_revalidators_hinder_no_end(setup):
    """`nic ovs down`, which follows, ends it all the same."""
    setup.warm_up()
    setup.appctl("revalidator/pause")
