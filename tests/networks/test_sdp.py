#!/usr/bin/env python3
"""Unmodified programs by SDP between two nodes: Debian's, and programs that know only sockets."""

import os
import signal
import sys

from sdpbed import ONLY_SDP, TESTS, SdpTestbed

from test_epoll import NGINX, REDIS  # noqa: E402
from testbed import SKIPPED, Failure, are_installed, option_parser, wait_until  # noqa: E402

SECONDS = 60
PAGE_BYTES = 200_000
PYTHON = "/usr/bin/python3"
ENDS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stream_ends.py")
LENDING = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lending.py")
PROGRAMS = os.path.join(TESTS, "programs")


def run_pair(testbed, server, client, *, server_ends=True):
    """Runs a server on node a and its client on node b."""
    port = str(testbed.free_port())
    place = {"a": testbed.address("a"), "port": port}
    running = testbed.start_sdp_server([word.format(**place) for word in server], int(port))
    testbed.start("b", [word.format(**place) for word in client]).expect_success(SECONDS)
    if server_ends:
        running.expect_success(SECONDS)
    running.kill()
    print(f"passed: {' '.join(client)}", flush=True)


def run_iperf3(testbed, *options):
    run_pair(testbed, ["iperf3", "-s", "-1", "-p", "{port}"], ["iperf3", "-c", "{a}", "-p", "{port}", *options])


def run_programs(testbed):
    for options in (["-n", "20M"], ["-P", "8", "-n", "40M"], ["-P", "8", "-n", "40M", "-R"]):
        run_iperf3(testbed, *options)
    for program in (f"{PROGRAMS}/echo.py", ENDS):
        run_pair(testbed, [PYTHON, program, "server", "{a}", "{port}"], [PYTHON, program, "client", "{a}", "{port}"])
    for count in ("1", "20"):  # They wait by epoll.
        words = [PYTHON, f"{PROGRAMS}/asyncio_echo.py"]
        run_pair(testbed, [*words, "server", "{a}", "{port}", count], [*words, "client", "{a}", "{port}", count])


def run_without(testbed, without, said):
    """One end has no SDP: TCP, and a line that says so."""
    testbed.without = without
    port = str(testbed.free_port())
    server = testbed.start_server("a", ["iperf3", "-s", "-1", "-p", port], int(port))
    client = testbed.start("b", ["iperf3", "-c", testbed.address("a"), "-p", port, "-n", "1M"])
    client.expect_success(SECONDS)
    server.expect_success(SECONDS)
    testbed.without = ()
    if client.output().count("TCP is used there") != said:
        raise Failure(f"not {said} times: TCP is used there")
    print(f"passed: without SDP: {without}", flush=True)


def run_rules(testbed):
    """The first rule that matches program, address and port decides."""
    port = testbed.free_port()
    testbed.set_rules(f"log min-level 7\nuse tcp client iperf3 {testbed.address('a')}/30:{port}\n{ONLY_SDP}")
    server = testbed.start_sdp_server(["iperf3", "-s", "-1", "-p", str(port)], port)
    client = testbed.start("b", ["iperf3", "-c", testbed.address("a"), "-p", str(port), "-n", "1M"])
    if client.wait(SECONDS) == 0 or f"SDP: connect {testbed.address('a')}:{port}: TCP" not in client.output():
        raise Failure("a client whose rule says TCP has reached a server of SDP alone")
    server.kill()
    testbed.set_rules("use rsocket server * *:*\nuse rsocket client * *:*\n")
    echo = [PYTHON, f"{PROGRAMS}/echo.py"]
    place = [testbed.address("a"), str(port)]
    server = testbed.start_server("a", [*echo, "server", *place], port)
    testbed.start("b", [*echo, "client", *place]).expect_success(SECONDS)
    server.expect_success(SECONDS)
    print("passed: rules", flush=True)


def run_redis(testbed):
    server = ["bash", "-c", f"exec -a redis-server {REDIS} --bind {{a}} --port {{port}} --save '' --protected-mode no "
              f"--dir {testbed.folder}"]
    run_pair(testbed, server, ["redis-benchmark", "-h", "{a}", "-p", "{port}", "-n", "2000", "-c", "20", "-d", "1000",
                               "-t", "set,get", "-q"], server_ends=False)


def run_nginx(testbed, requests=1000):
    """A program that forks: the connections of a listener that its master has made are its workers'."""
    testbed.set_rules("log min-level 7\n" + ONLY_SDP)
    port = testbed.free_port()
    os.mkdir(f"{testbed.folder}/pages")
    os.chmod(testbed.folder, 0o755)
    with open(f"{testbed.folder}/pages/page", "wb") as page:
        page.write(os.urandom(PAGE_BYTES))
    with open(f"{testbed.folder}/nginx.conf", "w", encoding="ascii") as file:
        user = "user root;\n" if os.geteuid() == 0 else ""
        file.write(user + NGINX.format(workers=2, folder=testbed.folder, address=testbed.address("a"), port=port))
    server = testbed.start_server("a", ["nginx", "-c", f"{testbed.folder}/nginx.conf", "-p", testbed.folder], port)
    client = testbed.start("b", ["ab", "-k", "-n", str(requests), "-c", "50", f"http://{testbed.address('a')}:{port}/page"])
    client.expect_success(SECONDS)
    for line in (f"Complete requests:      {requests}", "Failed requests:        0",
                 f"SDP: connect {testbed.address('a')}:{port}: SDP"):
        if line not in client.output():
            raise Failure(f"ab does not say {line!r}")
    if not any(program["name"] == "nginx" for program in testbed.status("a")):
        raise Failure("nginx has not used RDMA")
    wait_until(lambda: not any(program["queue_pairs"] for program in testbed.status("a")), 20,
               "nginx's connections to end")
    server.process.send_signal(signal.SIGTERM)
    server.expect_success(SECONDS)
    print("passed: nginx with two workers", flush=True)


def run_refused(testbed):
    """Nobody listens at a node that is there: the program's call says so."""
    holder = testbed.start("a", ["sleep", "600"])
    wait_until(lambda: testbed.node_status("a") is not None, SECONDS, "node a to be there")
    client = testbed.start("b", [PYTHON, f"{PROGRAMS}/echo.py", "client", testbed.address("a"),
                                 str(testbed.free_port())])
    if client.wait(SECONDS) == 0 or "ConnectionRefusedError" not in client.output():
        raise Failure("a connection that nobody accepts is not refused")
    holder.kill()
    print("passed: nobody listens", flush=True)


def run_from_the_start(testbed):
    """Sockets that are SDP's from the start, as others' are, for programs that do not fork."""
    testbed.forks = False
    testbed.set_rules("")
    run_without(testbed, ["a"], 1)
    run_without(testbed, ["b"], 0)
    testbed.set_rules(ONLY_SDP)
    run_iperf3(testbed, "-n", "1M")
    run_pair(testbed, [PYTHON, ENDS, "server", "{a}", "{port}"], [PYTHON, ENDS, "client", "{a}", "{port}"])
    run_refused(testbed)
    testbed.forks = True
    testbed.set_rules("")


def main():
    options = option_parser(__doc__).parse_args()
    if not are_installed("iperf3"):
        return SKIPPED
    with SdpTestbed(options) as testbed:
        run_from_the_start(testbed)
        run_without(testbed, ["a"], 1)
        run_without(testbed, ["b"], 0)
        run_iperf3(testbed, "-n", "1M")  # SDP, though both have TCP.
        run_pair(testbed, [PYTHON, ENDS, "server", "{a}", "{port}"], [PYTHON, ENDS, "client", "{a}", "{port}"])
        testbed.set_rules(ONLY_SDP)
        run_programs(testbed)
        testbed.set_rules(ONLY_SDP, SDP_ZCOPY_THRESH="65536")
        run_pair(testbed, [PYTHON, LENDING, "server", "{a}", "{port}"], [PYTHON, LENDING, "client", "{a}", "{port}"])
        testbed.set_rules(ONLY_SDP, SDP_ZCOPY_THRESH="0")
        if options.path == "wire":
            testbed.faults = "loss=1%,reorder=1%,duplicate=1%,seed=7"
            echo = f"{PROGRAMS}/echo.py"
            run_pair(testbed, [PYTHON, echo, "server", "{a}", "{port}"], [PYTHON, echo, "client", "{a}", "{port}"])
            testbed.faults = ""
        if are_installed("redis-benchmark") and os.path.exists(REDIS):
            run_redis(testbed)
        run_refused(testbed)
        run_rules(testbed)
        if are_installed("nginx", "ab"):
            run_nginx(testbed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
