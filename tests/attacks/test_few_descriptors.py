#!/usr/bin/env python3
"""Too few descriptors. A node whose agent has no more refuses further programs in words, and keeps those that it has,
with their connections. A program that has no more gets an errno and a line from each call, and never crashes or hangs."""

import resource
import sys

from kit import Failure, Testbed, enter_user_namespace, option_parser, wait_until

DESCRIPTORS = 64
PROGRAMS = 12
SECONDS_MAX = 60


def ports_of(testbed):
    return {port["port"] for port in testbed.bound_ports("a")}


def check_agent(testbed):
    """All processes that are started from now on have the limit, agents included."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, DESCRIPTORS))
    servers = {}
    for _ in range(PROGRAMS):
        port = testbed.free_port()
        servers[port] = testbed.start("a", [f"{testbed.build}/bin/greeter", "server", testbed.address("a"), str(port)])
    wait_until(lambda: all(port in ports_of(testbed) or server.ended() for port, server in servers.items()), SECONDS_MAX,
               "each program to become a member, or be refused")
    refused = [server for server in servers.values() if server.ended()]
    members = {port: server for port, server in servers.items() if not server.ended()}
    print(f"{len(members)} members, {len(refused)} refused", flush=True)
    if len(members) < 3 or not refused:
        raise Failure(f"of {PROGRAMS} programs {len(members)} are members")
    for server in refused:
        if "ulimit -n" not in server.output():
            raise Failure("a program was refused without being told why")
    for port, server in members.items():
        testbed.start("b", [f"{testbed.build}/bin/greeter", "client", testbed.address("a"), str(port)]).expect_success(SECONDS_MAX)
        if "gone" in server.output() or "no agent" in server.output():
            raise Failure("a member has lost its agent")
    if ports_of(testbed) != set(members):
        raise Failure(f"the agent knows of ports {ports_of(testbed)}, not {set(members)}")
    for server in members.values():
        server.kill()


def check_program(testbed, node):
    testbed.start(node, [f"{testbed.build}/bin/few_descriptors", testbed.address(node)]).expect_success(4 * SECONDS_MAX)
    print(f"a program on node {node} with ever more descriptors: ok", flush=True)


def main():
    options = option_parser(__doc__).parse_args()
    enter_user_namespace()
    with Testbed(options) as testbed:
        testbed.set_variables("c", VERBATIM_PROTOCOL="iwarp")
        check_program(testbed, "b")
        check_program(testbed, "c")
        check_agent(testbed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
