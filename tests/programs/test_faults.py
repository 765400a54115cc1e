#!/usr/bin/env python3
"""Fault injection: programs' messages arrive whole under 1 % of each fault, and a black hole
ends as a card ends it."""

import os
import subprocess
import sys
import time

from testbed import Failure, Testbed, option_parser, are_installed, SKIPPED

SECONDS_MAX = 60
RECEIVED = "loss=1%,duplicate=1%,corrupt=1%,direction=receive,seed=7"
EACH = "loss=1%,delay=10us..100us,duplicate=1%,reorder=1%,corrupt=1%,seed=7"
ONE_BY_ONE = ("loss=1%,seed=7", "delay=10us..100us,seed=7", "duplicate=1%,seed=7", "reorder=1%,seed=7", "corrupt=1%,seed=7")
# 4.096 us * 2^14, eight times: the first transmission and seven retries (IBA 9.7.6.1.3). A card may take four times that.
RETRIES_SECONDS = 8 * 0.067
# Reads, writes and messages of perftest, which fails if a request does.
PERFTEST = ("ib_write_bw -F -n 500 -s 65536", "ib_read_bw -F -n 500 -s 65536", "ib_send_lat -F -n 500 -s 64")
MPI_CHECK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "compat", "mpi_check.c")
CHECKED = "ibv_rc_pingpong -c -n 200 -s 4096 -g 1"  # -c compares the received bytes.


def set_faults(testbed, faults):
    for node in ("a", "b"):
        testbed.set_variables(node, VERBATIM_FAULT=faults)


def run_checked(testbed):
    """The client ends when it has received everything. A fault in its last acknowledgement leaves the server without
    a peer, as on any network: the server then retries in vain."""
    port = testbed.free_port()
    name, *words = CHECKED.split()
    server = testbed.start_server("a", [name, "-p", str(port), *words], port)
    testbed.start("b", [name, "-p", str(port), *words, testbed.address("a")]).expect_success(SECONDS_MAX)
    if server.wait(SECONDS_MAX) != 0 and "transport retry counter exceeded (12)" not in server.output():
        raise Failure("the server failed")
    if "invalid data" in server.output():
        raise Failure("the server received wrong bytes")


def test_contents(testbed):
    for faults in (*ONE_BY_ONE, EACH, RECEIVED):
        set_faults(testbed, faults)
        begun = time.monotonic()
        run_checked(testbed)
        print(f"passed: {faults} in {time.monotonic() - begun:.1f} s", flush=True)


def test_perftest(testbed, plans):
    for faults in plans:
        set_faults(testbed, faults)
        for run in PERFTEST:
            testbed.run_pair(run, SECONDS_MAX)
        print(f"passed: perftest under {faults}", flush=True)


def test_mpi(testbed, plans):
    """Two ranks, which compare every byte of a ring, an all-to-all, Put, Get and Accumulate."""
    if not are_installed("mpirun", "mpicc"):
        return
    program = f"{testbed.folder}/mpi_check"
    subprocess.run(["mpicc", "-O1", "-o", program, MPI_CHECK], check=True)
    wrapper = f"{testbed.folder}/rank"
    for faults in plans:
        with open(wrapper, "w", encoding="ascii") as script:
            script.write("#!/bin/sh\nrank=$OMPI_COMM_WORLD_RANK\n"
                         f"exec {testbed.build}/bin/verbatim run --node rank$rank --address 127.77.1.$((rank + 2)) "
                         f"--fault {faults} -- {program}\n")
        os.chmod(wrapper, 0o755)
        argv = ["env", "UCX_TLS=rc_v,self", "UCX_NET_DEVICES=verbatim0:1", "mpirun", "--allow-run-as-root",
                "--oversubscribe", "-np", "2", "--mca", "pml", "ucx", "--mca", "osc", "ucx", "--mca", "btl", "self", wrapper]
        testbed.set_variables("a")
        ranks = testbed.start("a", argv)
        ranks.expect_success(5 * SECONDS_MAX)
        if "mpi_check: all as expected" not in ranks.output():
            raise Failure(f"Open MPI under {faults} lacks its verdict")
        print(f"passed: Open MPI under {faults}", flush=True)


def test_black_hole(testbed, faults):
    testbed.set_variables("a", VERBATIM_FAULT="")
    testbed.set_variables("b", VERBATIM_FAULT=faults)
    port = str(testbed.free_port())
    argv = ["ibv_rc_pingpong", "-p", port, "-n", "10", "-g", "1"]
    server = testbed.start_server("a", argv, int(port))
    begun = time.monotonic()
    client = testbed.start("b", [*argv, testbed.address("a")])
    client.wait(SECONDS_MAX)
    seconds = time.monotonic() - begun
    server.kill()
    if "transport retry counter exceeded" not in client.output():
        raise Failure(f"a black hole, {faults}, did not end with IBV_WC_RETRY_EXC_ERR")
    if not RETRIES_SECONDS * 0.9 < seconds < 4 * RETRIES_SECONDS + 5:
        raise Failure(f"the retries took {seconds:.2f} s")


def test_option(testbed):
    def run(faults):
        return subprocess.run([f"{testbed.build}/bin/verbatim", "run", "--fault", faults, "--", "sh", "-c",
                               "echo $VERBATIM_FAULT"], check=False, text=True, capture_output=True, timeout=SECONDS_MAX)
    done = run("loss=2%,seed=5")
    if done.stdout != "loss=2%,seed=5\n" or "faults: loss=2%,seed=5" not in done.stderr:
        raise Failure(f"--fault gave {done}")
    if ",seed=" not in run("loss=2%").stdout:
        raise Failure("--fault chose no seed")
    refused = run("loss=2")
    if refused.returncode != 2 or "as in '1%'" not in refused.stderr:
        raise Failure(f"--fault took nonsense: {refused}")


def test_command(testbed):
    """`verbatim fault` reaches a program that waits for its peer, and one that starts later, until it is off."""
    def fault(*words):
        return subprocess.run([f"{testbed.build}/bin/verbatim", "fault", *words], env=testbed.environment(), check=False,
                              text=True, capture_output=True, timeout=SECONDS_MAX)

    def expect(done, status, text):
        if done.returncode != status or text not in done.stdout + done.stderr:
            raise Failure(f"not status {status} and '{text}': {done}")

    testbed.set_variables("a")
    testbed.set_variables("b")
    expect(fault("a", "loss=1%"), 1, "node 'a' does not run")
    port = testbed.free_port()
    argv = ["ibv_rc_pingpong", "-p", str(port), "-n", "10", "-g", "1"]
    server = testbed.start_server("a", argv, port)
    expect(fault("a", "show"), 0, "node 'a', 1 program: no faults but")
    expect(fault("a", "loss=2"), 2, "as in '1%'")
    expect(fault("a", "loss=100%,seed=7"), 0, "node 'a', 1 program: loss=100%,seed=7")
    client = testbed.start("b", [*argv, testbed.address("a")])
    client.wait(SECONDS_MAX)
    if "transport retry counter exceeded" not in client.output():
        raise Failure("the faults did not reach a program that ran")
    server.kill()
    other_port = testbed.free_port()
    holder = testbed.start_server("a", ["ibv_rc_pingpong", "-p", str(other_port)], other_port)  # It keeps the node.
    expect(fault("a", "loss=100%"), 0, ",seed=")
    late = testbed.start_server("a", argv, port)
    client = testbed.start("b", [*argv, testbed.address("a")])
    client.wait(SECONDS_MAX)
    if "transport retry counter exceeded" not in client.output():
        raise Failure("the faults did not reach a program that started later")
    late.kill()
    expect(fault("a", "off"), 0, "off")
    testbed.run_pair("ibv_rc_pingpong -n 100 -g 1", SECONDS_MAX)
    holder.kill()


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--long", action="store_true", help="perftest and Open MPI under each fault")
    options = parser.parse_args()
    if not are_installed("ibv_rc_pingpong"):
        return SKIPPED
    with Testbed(options) as testbed:
        if options.long:
            test_perftest(testbed, (*ONE_BY_ONE, EACH))
            test_mpi(testbed, (*ONE_BY_ONE, EACH))
            return 0
        test_option(testbed)
        test_command(testbed)
        test_contents(testbed)
        test_perftest(testbed, (EACH,))
        for faults in ("loss=100%", "loss=100%,direction=receive"):
            test_black_hole(testbed, faults)
    return 0


if __name__ == "__main__":
    sys.exit(main())
