#!/usr/bin/env python3
"""rsockets: Debian's programs on them, and programs that know only sockets, under librspreload."""

import filecmp
import os
import subprocess
import sys

from testbed import SKIPPED, Failure, Testbed, are_installed, option_parser, wait_until

SECONDS = 60
FOLDER = os.path.dirname(os.path.abspath(__file__))
SPEAKER = os.path.join(FOLDER, "echo.py")
FILE_BYTES = 5_000_000

# Arguments that server and client share; the server's address follows -b or -s.
SAME_ARGUMENTS = [
    "rstream -S 4096 -C 500 -T v", "rstream -S 3000 -C 200 -T v -T a", "rstream -S 65536 -C 100 -T v -T n",
    "rstream -S 100000 -C 50 -T v -T b", "rstream -B 300000 -S 1000000 -C 10 -T v", "rstream -S 64 -C 500 -T r",
    "riostream -S 4096 -C 500 -T v", "riostream -S 65536 -C 100 -T v -T n",
]


def start_server(testbed, argv):
    server = testbed.start("a", argv)

    def is_bound():
        if server.ended():
            raise Failure(f"{server.name} ended with status {server.process.returncode} early")
        return testbed.bound_ports("a")

    wait_until(is_bound, 20, f"{server.name} to be bound")
    return server


def run_pair(testbed, words):
    program, *arguments = words.split()
    port = str(testbed.free_port())
    server = start_server(testbed, [program, "-b", testbed.address("a"), "-p", port, *arguments])
    client = testbed.start("b", [program, "-s", testbed.address("a"), "-p", port, *arguments])
    client.expect_success(SECONDS)
    server.expect_success(SECONDS)
    print(f"{words}: ok", flush=True)


def run_udpong(testbed):
    port = str(testbed.free_port())
    server = start_server(testbed, ["udpong", "-b", testbed.address("a"), "-p", port])
    client = testbed.start("b", ["udpong", "-s", testbed.address("a"), "-p", port, "-S", "1000", "-C", "200",
                             "-T", "e"])
    client.expect_success(SECONDS)
    server.kill()
    print("udpong: ok", flush=True)


def run_rcopy(testbed):
    port = str(testbed.free_port())
    source, copy = f"{testbed.folder}/source", f"{testbed.folder}/copy"
    with open(source, "wb") as file:
        file.write(os.urandom(FILE_BYTES))
    server = start_server(testbed, ["rcopy", "-p", port])
    client = testbed.start("b", ["rcopy", source, f"{testbed.address('a')}:{copy}", "-p", port])
    client.expect_success(SECONDS)
    if not filecmp.cmp(source, copy, shallow=False):
        raise Failure("rcopy made another file")
    server.kill()
    print("rcopy: ok", flush=True)


def preload(testbed):
    return f"LD_PRELOAD={testbed.build}/lib/rsocket/librspreload.so.1"


def run_preloaded(testbed, name, server_words, client_words):
    places = {"a": testbed.address("a"), "port": str(testbed.free_port())}
    server = start_server(testbed, ["env", preload(testbed), *[word.format(**places) for word in server_words]])
    client = testbed.start("b", ["env", preload(testbed), *[word.format(**places) for word in client_words]])
    client.expect_success(SECONDS)
    server.expect_success(SECONDS)
    print(f"{name} under librspreload: ok", flush=True)


def run_descriptors(testbed):
    program = testbed.start("a", ["env", preload(testbed), "/usr/bin/python3", f"{FOLDER}/descriptors.py",
                              testbed.address("a")])
    program.expect_success(SECONDS)
    print("descriptors.py under librspreload: ok", flush=True)


def run_forking(testbed, mode):
    words = ["env", preload(testbed), "RDMAV_FORK_SAFE=1", "/usr/bin/python3", f"{FOLDER}/forking.py", mode]
    plain_words = words[3:]
    port = testbed.free_port()
    place = [testbed.address("a"), str(port)]
    server_words = plain_words if mode == "tcp" else words
    client_words = plain_words if mode == "leaves" else words
    server = testbed.start_server("a", [*server_words, "server", *place], port)
    client = testbed.start("b", [*client_words, "client", *place])
    client.expect_success(SECONDS)
    server.expect_success(SECONDS)
    print(f"forking.py {mode} under librspreload: ok", flush=True)


def run_passing(testbed, mode):
    words = ["env", preload(testbed), "RDMAV_FORK_SAFE=1", "/usr/bin/python3", f"{FOLDER}/passing.py", mode]
    port = testbed.free_port()
    place = [testbed.address("a"), str(port)]
    server = testbed.start_server("a", [*words, "server", *place], port)
    client = testbed.start("b", [*words, "client", *place])
    client.expect_success(SECONDS)
    server.expect_success(SECONDS)
    print(f"passing.py {mode} under librspreload: ok", flush=True)


def main():
    options = option_parser(__doc__).parse_args()
    if not are_installed("rstream", "iperf3"):
        return SKIPPED
    with Testbed(options) as testbed:
        for words in SAME_ARGUMENTS:
            run_pair(testbed, words)
        run_udpong(testbed)
        run_rcopy(testbed)
        if not options.preload:  # One preloaded library is enough.
            run_descriptors(testbed)
            for mode in ("asks", "greets", "waits", "inetd", "tcp", "leaves"):
                run_forking(testbed, mode)
            for mode in ("exec", "message", "numbers", "duplicates"):
                run_passing(testbed, mode)
            run_preloaded(testbed, "echo.py", ["/usr/bin/python3", SPEAKER, "server", "{a}", "{port}"],
                          ["/usr/bin/python3", SPEAKER, "client", "{a}", "{port}"])
            run_preloaded(testbed, "iperf3", ["iperf3", "-s", "-1", "-B", "{a}", "-p", "{port}"],
                          ["iperf3", "-c", "{a}", "-p", "{port}", "-n", "20M"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
