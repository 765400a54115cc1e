#!/usr/bin/env python3
"""What programs hear when their node's interface and address go and come back."""

import re
import sys

from testbed import Failure, Testbed, option_parser, wait_until
from namespaces import enter_user_namespace, ip, wait_for_link

NODE = "a"
ADDRESS = "10.78.0.1"
INTERFACE = "veth-a"
SECONDS_MAX = 20
STATE = "/sys/class/infiniband/verbatim0/ports/1/state"
GID = "/sys/class/infiniband/verbatim0/ports/1/gids/1"
NO_GID = ":".join(["0000"] * 8)

# The change of the interface, the output of ibv_asyncwatch, the events of an rdma_cm_id.
DOWN = ("ip link set veth-b down", ["PORT_ERR"], [])
UP = ("ip link set veth-b up", ["PORT_ACTIVE"], [])
DELETE = (f"ip address del {ADDRESS}/24 dev {INTERFACE}", ["PORT_ERR", "GID_CHANGE"], [])
ADD = (f"ip address add {ADDRESS}/24 dev {INTERFACE}", ["GID_CHANGE", "PORT_ACTIVE"], [])
REPLACE = (f"ip link set {INTERFACE} address 02:55:55:00:00:01", [], ["ADDR_CHANGE"])
REMOVE = (f"ip link del {INTERFACE}", ["PORT_ERR", "GID_CHANGE", "DEVICE_FATAL"],
          ["DEVICE_REMOVAL"])


class Watchers:
    """A program with an open device and one with an rdma_cm_id, with the events that they have printed so far."""

    def __init__(self, testbed):
        self._verbs = testbed.start(NODE, ["stdbuf", "-oL", "ibv_asyncwatch"])
        self.cm = testbed.start(NODE, [f"{testbed.build}/bin/cm_watch", ADDRESS])
        self._expected_verbs, self._expected_cm = [], []
        wait_until(lambda: "async event FD" in self._verbs.output() and
                   "bound" in self.cm.output(), SECONDS_MAX, "the watchers")

    def expect_after(self, step):
        command, verbs, cm = step
        ip(command)
        self._expected_verbs += [f"IBV_EVENT_{name}" for name in verbs]
        self._expected_cm += [f"RDMA_CM_EVENT_{name}" for name in cm]
        wait_until(lambda: len(self._heard_by_verbs()) >= len(self._expected_verbs) and
                   len(self._heard_by_cm()) >= len(self._expected_cm),
                   SECONDS_MAX, f"events of: {command}")
        self.expect_nothing_else()
        print(f"passed: {command}", flush=True)

    def expect_nothing_else(self):
        heard = self._heard_by_verbs(), self._heard_by_cm()
        if heard != (self._expected_verbs, self._expected_cm):
            raise Failure(f"heard {heard}, expected {self._expected_verbs, self._expected_cm}")

    def _heard_by_verbs(self):
        return re.findall(r"event_type (\w+)", self._verbs.output())

    def _heard_by_cm(self):
        return re.findall(r"RDMA_CM_EVENT_\w+", self.cm.output())


def expect_binding_fails(testbed):
    program = testbed.start(NODE, [f"{testbed.build}/bin/cm_watch", ADDRESS])
    if program.wait(SECONDS_MAX) != 1 or "Cannot assign requested address" not in program.output():
        raise Failure("an id is bound to an address that is not there")


def follow(testbed):
    watchers = Watchers(testbed)
    watchers.expect_after(DOWN)
    testbed.expect_output(NODE, ["ibv_devinfo"], "PORT_DOWN")
    testbed.expect_output(NODE, ["cat", STATE], "1: DOWN")
    watchers.expect_after(UP)
    testbed.expect_output(NODE, ["ibv_devinfo", "-v"], "PORT_ACTIVE", ADDRESS)
    testbed.expect_output(NODE, ["cat", STATE], "4: ACTIVE")

    watchers.expect_after(DELETE)
    testbed.expect_output(NODE, ["cat", GID], NO_GID)
    expect_binding_fails(testbed)
    watchers.expect_after(ADD)
    testbed.expect_output(NODE, ["cat", GID], "0a4e:0001")

    watchers.expect_after(REPLACE)
    watchers.expect_after(REMOVE)
    watchers.cm.expect_success(SECONDS_MAX)
    testbed.expect_output(NODE, ["ibv_devinfo"], "PORT_DOWN")
    watchers.expect_nothing_else()


def main():
    options = option_parser(__doc__).parse_args()
    enter_user_namespace()
    for command in (f"ip link add {INTERFACE} type veth peer name veth-b",
                    # No link-local addresses, because the kernel adds and removes them at any time.
                    f"ip link set {INTERFACE} addrgenmode none",
                    "ip link set veth-b addrgenmode none",
                    f"ip address add {ADDRESS}/24 dev {INTERFACE}",
                    f"ip link set {INTERFACE} up", "ip link set veth-b up"):
        ip(command)
    wait_for_link(INTERFACE)
    with Testbed(options) as testbed:
        testbed.set_addresses(NODE, ADDRESS)
        follow(testbed)


if __name__ == "__main__":
    sys.exit(main())
