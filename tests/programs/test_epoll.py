#!/usr/bin/env python3
"""Unmodified programs that wait by epoll, under librspreload: Debian's servers and Python's asyncio."""

import os
import sys

from test_rsockets import preload, start_server
from testbed import Testbed, option_parser

SECONDS = 60
FOLDER = os.path.dirname(os.path.abspath(__file__))
PYTHON = "/usr/bin/python3"


def run_asyncio(testbed, connections, *mode, forks=False):
    words = ["env", preload(testbed), *(["RDMAV_FORK_SAFE=1"] if forks else []), PYTHON, f"{FOLDER}/asyncio_echo.py"]
    port = testbed.free_port()
    rest = [testbed.address("a"), str(port), str(connections), *mode]
    if forks:
        server = testbed.start_server("a", [*words, "server", *rest], port)
    else:
        server = start_server(testbed, [*words, "server", *rest])
    client = testbed.start("b", [*words, "client", *rest])
    client.expect_success(SECONDS)
    if mode:
        server.wait(SECONDS)
    else:
        server.expect_success(SECONDS)
    print(f"asyncio_echo.py with {connections} connections {' '.join(mode)}: ok", flush=True)


def main():
    options = option_parser(__doc__).parse_args()
    with Testbed(options) as testbed:
        run_asyncio(testbed, 1)
        run_asyncio(testbed, 20)
        run_asyncio(testbed, 5, "--killed")
        run_asyncio(testbed, 20, forks=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
