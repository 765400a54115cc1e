#!/usr/bin/env python3
"""Unmodified programs that wait by epoll, under librspreload: Python's asyncio, nginx, Redis, iperf3."""

import os
import re
import shutil
import signal
import sys

from test_rsockets import preload, run_preloaded, start_server
from testbed import Failure, Testbed, option_parser, wait_until

SECONDS = 60
FOLDER = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3"
WORKERS = 2
REDIS = "/usr/bin/redis-check-rdb"  # In Debian the server is this program by another name.

NGINX = """
worker_processes {workers};
daemon off;
master_process on;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log info;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  server {{ listen {address}:{port}; root {folder}/pages; }}
}}
"""


def words(testbed, forks):
    return ["env", preload(testbed), *(["RDMAV_FORK_SAFE=1"] if forks else [])]




def run_asyncio(testbed, connections, *mode, forks=False):
    port = testbed.free_port()
    rest = [testbed.address("a"), str(port), str(connections), *mode]
    server_words = [*words(testbed, forks), PYTHON, f"{FOLDER}/asyncio_echo.py", "server", *rest]
    server = testbed.start_server("a", server_words, port) if forks else start_server(testbed, server_words)
    client = testbed.start("b", [*words(testbed, forks), PYTHON, f"{FOLDER}/asyncio_echo.py", "client", *rest])
    client.expect_success(SECONDS)
    if mode:
        server.wait(SECONDS)
    else:
        server.expect_success(SECONDS)
    print(f"asyncio_echo.py with {connections} connections {' '.join(mode)}: ok", flush=True)


def run_events(testbed):
    program = testbed.start("a", [*words(testbed, False), PYTHON, f"{FOLDER}/epoll_events.py", testbed.address("a")])
    program.expect_success(3 * SECONDS)
    print("epoll_events.py: ok", flush=True)


def run_redis(testbed):
    port = str(testbed.free_port())
    server = start_server(testbed, [*words(testbed, False), "bash", "-c",
                                    f"exec -a redis-server {REDIS} --bind {testbed.address('a')} --port {port} "
                                    f"--save '' --protected-mode no --dir {testbed.folder}"])
    client = testbed.start("b", [*words(testbed, False), "redis-benchmark", "-h", testbed.address("a"), "-p", port,
                                 "-n", "2000", "-c", "20", "-d", "1000", "-t", "set,get,lpush,mset", "-q", "--csv"])
    client.expect_success(SECONDS)
    for test in ("SET", "GET", "LPUSH", "MSET"):
        if f'"{test}' not in client.output():
            raise Failure(f"redis-benchmark says nothing of {test}")
    # It has asked the server for its settings, which a server that is not reached cannot tell.
    if "WARNING" in client.output():
        raise Failure("redis-benchmark has warned")
    server.process.send_signal(signal.SIGTERM)
    server.expect_success(SECONDS)
    print("redis-server, redis-benchmark: ok", flush=True)


def run_nginx(testbed):
    """Workers take connections of a listener that their master has made."""
    port = testbed.free_port()
    pages = f"{testbed.folder}/pages"
    os.mkdir(pages)
    os.chmod(testbed.folder, 0o755)
    with open(f"{pages}/page", "wb") as page:
        page.write(os.urandom(200_000))
    with open(f"{testbed.folder}/nginx.conf", "w", encoding="ascii") as file:
        user = "user root;\n" if os.geteuid() == 0 else ""
        file.write(user + NGINX.format(workers=WORKERS, folder=testbed.folder, address=testbed.address("a"), port=port))
    server = testbed.start_server("a", [*words(testbed, True), "nginx", "-c", f"{testbed.folder}/nginx.conf", "-p",
                                        testbed.folder], port)
    address = f"http://{testbed.address('a')}:{port}/page"
    client = testbed.start("b", [*words(testbed, True), "ab", "-k", "-n", "1000", "-c", "50", address])
    client.expect_success(SECONDS)
    for line in ("Complete requests:      1000", "Failed requests:        0"):
        if line not in client.output():
            raise Failure(f"ab does not say {line!r}")
    if shutil.which("wrk"):  # A set for each thread, and ten times as many connections.
        client = testbed.start("b", [*words(testbed, True), "wrk", "-t", "2", "-c", "200", "-d", "3", address])
        client.expect_success(SECONDS)
        # Its timeouts are answers after two seconds, as from a busy machine.
        if "Non-2xx" in client.output() or re.search(r"Socket errors: (?!connect 0, read 0, write 0,)", client.output()):
            raise Failure("wrk saw errors")
    programs = [program for program in testbed.status("a") if program["name"] == "nginx"]
    if not programs:
        raise Failure("nginx has not used RDMA")
    wait_until(lambda: not any(program["queue_pairs"] for program in testbed.status("a")), 20,
               "nginx's connections to end")
    server.process.send_signal(signal.SIGTERM)
    server.expect_success(SECONDS)
    print(f"nginx with {WORKERS} workers, ab with 50 connections: ok", flush=True)


def run_all(testbed):
    run_events(testbed)
    for connections in (1, 20):
        run_asyncio(testbed, connections)
    run_asyncio(testbed, 5, "--killed")
    run_asyncio(testbed, 20, forks=True)
    if shutil.which("redis-benchmark") and os.path.exists(REDIS):
        run_redis(testbed)
    if shutil.which("nginx") and shutil.which("ab"):
        run_nginx(testbed)
    if shutil.which("iperf3"):
        run_preloaded(testbed, "iperf3 -P 8", ["iperf3", "-s", "-1", "-B", "{a}", "-p", "{port}"],
                      ["iperf3", "-c", "{a}", "-p", "{port}", "-n", "80M", "-P", "8"])


def main():
    options = option_parser(__doc__).parse_args()
    with Testbed(options) as testbed:
        run_all(testbed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
