#!/usr/bin/env python3
"""Our RDS broker with Linux's rds_rdma, which runs in a guest under QEMU: pings, messages of up to 1 MiB and RDMA
operations both ways, many messages in order, and a broker that is killed and found again."""

import json
import os
import shutil
import signal
import subprocess
import sys

import guest as peer
from testbed import Failure, Testbed, option_parser, wait_until

NODE = "host"
SECONDS = 300  # The guest's processor is emulated.
PORT = 4000
BUFFER = 4 << 20
SIZES = ((100, 1024), (20, 0), (20, 4097), (20, 65536), (8, 1 << 20))


class Ours:
    """Programs of the node, whose AF_RDS sockets are the broker's."""

    def __init__(self, testbed):
        self.testbed = testbed
        self.programs = os.path.join(testbed.build, "bin")
        self.place = ("--node", NODE, "--address", peer.OUR_ADDRESS)

    def command(self, *words):
        return [f"{self.testbed.build}/bin/verbatim", *words]

    def verbatim(self, *words, seconds=SECONDS):
        done = subprocess.run(self.command(*words), env=self.testbed.environment(), check=False, capture_output=True,
                              text=True, timeout=seconds)
        if done.returncode != 0:
            raise Failure(f"verbatim {' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def words(self, program, words):
        return ("run", "--rds", *self.place, "--", os.path.join(self.programs, program), *map(str, words))

    def run(self, *words, program="rds_session"):
        return self.verbatim(*self.words(program, words))

    def start(self, *words, program="rds_session"):
        return subprocess.Popen(self.command(*self.words(program, words)),
                                env=self.testbed.environment(), stdout=subprocess.PIPE, text=True)

    def show(self):
        return json.loads(self.verbatim("rds", "show", *self.place, "--json"))

    def peer(self):
        return next(one for one in self.show()["peers"] if one["peer"] == peer.ADDRESS)


def pings_go_both_ways(guest, ours):
    told = ours.verbatim("rds", "ping", *ours.place, "-c", "3", "-i", "20", peer.ADDRESS)
    if told.count("usec") != 3:
        raise Failure(f"the kernel does not answer each ping:\n{told}")
    guest.run(f"/host/rds_session ping {peer.ADDRESS} {peer.OUR_ADDRESS} 10", SECONDS)


def the_kernel_echoes(guest, ours):
    echo = guest.start(f"/host/rds_session echo {peer.ADDRESS} {PORT} {BUFFER}")
    wait_until(lambda: "echoes" in echo.output() or echo.status() is not None, 60, "the guest's program")
    for count, size in SIZES:
        print(f"  {ours.run('ask', peer.OUR_ADDRESS, peer.ADDRESS, PORT, count, size).strip()}", flush=True)
    guest.run("killall rds_session")


def ours_echoes(guest, ours):
    with ours.start("echo", peer.OUR_ADDRESS, PORT) as echo:
        try:
            assert echo.stdout.readline() == "echoes\n"
            for count, size in SIZES:
                guest.run(f"/host/rds_session ask {peer.ADDRESS} {peer.OUR_ADDRESS} {PORT} {count} {size} {BUFFER}",
                          SECONDS)
        finally:
            echo.kill()


def many_messages_come_in_order(guest, ours):
    with ours.start("drain", peer.OUR_ADDRESS, PORT + 1, 2000) as drain:
        assert drain.stdout.readline() == "drains\n"
        guest.run(f"/host/rds_session flood {peer.ADDRESS} {peer.OUR_ADDRESS} {PORT + 1} 2000 5000", SECONDS)
        if drain.wait(SECONDS) != 0:
            raise Failure("not every message of the kernel has come once and in order")
    drain = guest.start(f"/host/rds_session drain {peer.ADDRESS} {PORT + 1} 2000")
    wait_until(lambda: "drains" in drain.output() or drain.status() is not None, 60, "the guest's program")
    ours.run("flood", peer.OUR_ADDRESS, peer.ADDRESS, PORT + 1, 2000, 5000)
    drain.expect_success(SECONDS)


LOANS = (("lend", 20, 5000), ("lend", 4, 1 << 20), ("wrong",))


def count_of(words):
    return 2 if words[0] == "wrong" else words[1]


def the_kernel_uses_our_memory(guest, ours):
    for port, words in enumerate(LOANS, PORT + 10):
        user = guest.start(f"/host/rds_memory use {peer.ADDRESS} {port} {count_of(words)}")
        wait_until(lambda: "uses" in user.output() or user.status() is not None, 60, "the guest's program")
        verb, *numbers = words
        ours.run(verb, peer.OUR_ADDRESS, peer.ADDRESS, port, *numbers, program="rds_memory")
        user.expect_success(SECONDS)


def ours_uses_the_kernels_memory(guest, ours):
    for port, words in enumerate(LOANS, PORT + 20):
        with ours.start("use", peer.OUR_ADDRESS, port, count_of(words), program="rds_memory") as user:
            assert user.stdout.readline() == "uses\n"
            verb, *numbers = words
            guest.run(f"/host/rds_memory {verb} {peer.ADDRESS} {peer.OUR_ADDRESS} {port} "
                      + " ".join(map(str, numbers)), SECONDS)
            if user.wait(SECONDS) != 0:
                raise Failure("a program of ours that uses the kernel's memory has failed")


def a_cut_loses_nothing(guest, ours):
    """The network is down for a while, under load, until one side gives its queue pair up."""
    drain = guest.start(f"/host/rds_session drain {peer.ADDRESS} {PORT + 2} 4000")
    wait_until(lambda: "drains" in drain.output() or drain.status() is not None, 60, "the guest's program")
    before = ours.peer()
    flood = ours.start("flood", peer.OUR_ADDRESS, peer.ADDRESS, PORT + 2, 4000, 3000)
    try:
        wait_until(lambda: ours.peer()["sent"] > before["sent"] + 20, 60, "the load")
        subprocess.run(["ip", "link", "set", "tap0", "down"], check=True)
        kernel_gives_up = guest.start("while rdma resource show qp | grep -q 'type RC.*RTS'; do usleep 100000; done")
        wait_until(lambda: ours.peer()["state"] != "up" or kernel_gives_up.status() is not None, 120, "the cut to be noticed")
        subprocess.run(["ip", "link", "set", "tap0", "up"], check=True)
        if flood.wait(SECONDS) != 0:
            raise Failure("the load has failed")
        drain.expect_success(SECONDS)
    finally:
        flood.kill()
    print(f"  connected {ours.peer()['connected'] - before['connected']} times more", flush=True)


def a_killed_broker_is_found_again(guest, ours):
    os.kill(ours.show()["process"], signal.SIGKILL)
    ours.verbatim("rds", "up", *ours.place)
    guest.run(f"/host/rds_session ping {peer.ADDRESS} {peer.OUR_ADDRESS} 3", SECONDS)
    the_kernel_echoes(guest, ours)


PARTS = (pings_go_both_ways, the_kernel_echoes, ours_echoes, many_messages_come_in_order,
         the_kernel_uses_our_memory, ours_uses_the_kernels_memory, a_cut_loses_nothing,
         a_killed_broker_is_found_again)


def main():
    options = option_parser(__doc__).parse_args()
    system = os.path.join(options.build, "guest")
    peer.enter_network(system)
    options.path = "wire"
    with Testbed(options) as testbed:
        ours = Ours(testbed)
        with peer.Guest(testbed.folder, system, "rxe") as guest:
            print(f"peer: rds_rdma of Linux {guest.version}", flush=True)
            for program in ("rds_memory", "rds_session"):
                shutil.copy(os.path.join(ours.programs, program), guest.share)
            guest.run(f"echo {BUFFER} >/proc/sys/net/core/wmem_max && echo {BUFFER} >/proc/sys/net/core/rmem_max")
            guest.run("modprobe rds && modprobe rds_rdma")
            ours.verbatim("rds", "up", *ours.place)
            try:
                for part in PARTS:
                    part(guest, ours)
                    print(f"passed: {part.__name__}", flush=True)
            except Exception:
                print(guest.run("dmesg | tail -n 20"), flush=True)
                raise
            finally:
                ours.verbatim("rds", "down", *ours.place)
    return 0


if __name__ == "__main__":
    sys.exit(main())
