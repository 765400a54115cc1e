#!/usr/bin/env python3
"""Debian's uDAPL programs with the providers that `verbatim run` names to them: between hosts of a fabric by datagrams
of verbs (libdaploucm), and between RoCE nodes by rdma_cm (libdaplofa)."""

import sys

from fabricbed import CHAIN, FabricBed

from testbed import SKIPPED, Failure, Testbed, are_installed, option_parser

PORT = 15828  # dtest's, for what its ends tell each other first.
PASSED = "DAPL Test Complete. PASSED"
RUN = ("dtest", "-b", "65536", "-D")


def on_a_fabric(options):
    with FabricBed(options) as bed:
        bed.up(CHAIN, "--manager", "opensm")
        bed.wait_until_active("H1", "H2")
        words = (*RUN, "-P", "ofa-v2-verbatim0-1u")
        server = bed.start("H1", *words)
        bed.wait_until_listening(server, PORT)
        said = bed.run("H2", *words, "-h", "127.0.0.1")
        if PASSED not in said or server.wait(60) != 0:
            raise Failure(f"status {server.returncode}\n{said}")


def on_nodes(options):
    options.path = "auto"
    with Testbed(options) as testbed:
        words = (*RUN, "-P", "ofa-v2-verbatim0")
        server = testbed.start_server("a", words, PORT)
        testbed.expect_output("b", (*words, "-h", testbed.address("a")), PASSED)
        server.expect_success(60)


def main():
    options = option_parser(__doc__).parse_args()
    if not are_installed("opensm", "dtest"):
        return SKIPPED
    on_a_fabric(options)
    on_nodes(options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
