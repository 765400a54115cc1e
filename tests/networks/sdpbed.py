"""Testbeds whose nodes run their programs with `verbatim run --sdp`, by rules for each node."""

import os
import sys

TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path[:0] = [os.path.join(TESTS, "programs"), os.path.join(TESTS, "fabric")]

from fabricbed import HostsTestbed  # noqa: E402
from testbed import Failure, Testbed, wait_until  # noqa: E402

ONLY_SDP = "use sdp server * *:*\nuse sdp client * *:*\n"


class SdpNodes:
    """Nodes have SDP unless they are in `without`. `forks`: connections are TCP's at first, so that programs may fork."""

    without = ()
    faults = ""
    forks = True

    def run_options(self, node):
        options = [*super().run_options(node), *(() if node in self.without else ("--sdp",))]
        return [*options, "--fault", self.faults] if self.faults else options

    def set_rules(self, text, *nodes, **variables):
        """Rules in libsdp.conf's form; none: SDP, and TCP where the other end has none. Further variables beside them."""
        for node in nodes or ("a", "b"):
            path = f"{self.folder}/libsdp.{node}.conf"
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
            forks = {} if self.forks else {"RDMAV_FORK_SAFE": "0"}
            self.set_variables(node, LIBSDP_CONFIG_FILE=path, **forks, **variables)

    def listens_by_sdp(self, port):
        return any(bound["space"] == "sdp" and bound["port"] == port for bound in self.bound_ports("a"))

    def start_sdp_server(self, argv, port):
        if self.forks:
            return self.start_server("a", argv, port)
        server = self.start("a", argv)

        def is_ready():
            if server.ended():
                raise Failure(f"{server.name} ended with status {server.process.returncode} early")
            return self.listens_by_sdp(port)

        wait_until(is_ready, 20, f"{server.name} to listen at port {port} by SDP")
        return server


class SdpTestbed(SdpNodes, Testbed):
    pass


class SdpHostsTestbed(SdpNodes, HostsTestbed):
    pass
