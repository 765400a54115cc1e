#!/usr/bin/env python3
"""peer_session and peer_cm between two of our nodes."""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs"))

from testbed import Testbed, option_parser, wait_until

SECONDS_MAX = 100


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--protocol", default="roce", choices=("roce", "iwarp"))
    parser.add_argument("--mpa", default="", help="VERBATIM_MPA of both")
    options = parser.parse_args()
    with Testbed(options) as testbed:
        for node in ("a", "b"):
            testbed.set_variables(node, VERBATIM_PROTOCOL=options.protocol, VERBATIM_MPA=options.mpa)
        port = str(testbed.free_port())
        session = [f"{testbed.build}/bin/peer_session", "-p", port]
        server = testbed.start_server("a", session, int(port))
        # Each MTU takes time; the long set tests all of them.
        testbed.start("b", [*session, "-m", "4096", testbed.address("a")]).expect_success(SECONDS_MAX)
        server.expect_success(SECONDS_MAX)

        connections = [f"{testbed.build}/bin/peer_cm", "-p", port]
        server = testbed.start("a", connections)
        wait_until(lambda: testbed.bound_ports("a"), SECONDS_MAX, "peer_cm to listen")
        testbed.start("b", [*connections, testbed.address("a")]).expect_success(SECONDS_MAX)
        server.expect_success(SECONDS_MAX)
    return 0


if __name__ == "__main__":
    sys.exit(main())
