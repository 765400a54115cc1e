"""Network namespaces for tests, without root where the kernel lets users have them."""

import contextlib
import os
import subprocess
import sys
import time

from testbed import SKIPPED

LINK_SECONDS_MAX = 20


def is_inside():
    """Returns true if enter_user_namespace has started this script again."""
    return os.environ.get("VERBATIM_TEST_INSIDE") == "1"


def enter_user_namespace():
    """Starts this script again as root of a new user and network namespace, once. As real root, only the network
    namespace is new. Ends the script as skipped if that is refused."""
    if is_inside():
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    flags = ["--net"] if os.geteuid() == 0 else ["--user", "--map-root-user", "--net"]
    if subprocess.run(["unshare", *flags, "true"], stderr=subprocess.DEVNULL,
                      check=False).returncode != 0:
        print("skipped: this machine lets an ordinary user have no network namespace; run as root")
        sys.exit(SKIPPED)
    environment = dict(os.environ, VERBATIM_TEST_INSIDE="1")
    os.execvpe("unshare", ["unshare", *flags, sys.executable, "-B", *sys.argv], environment)


class Namespace:
    """A second network namespace, which exists as long as this object's process."""

    def __init__(self):
        # cat ends with its standard input, so that nothing is left if this script is killed.
        self._holder = subprocess.Popen(["unshare", "--net", "cat"], stdin=subprocess.PIPE,
                                        stdout=subprocess.DEVNULL)
        self.pid = self._holder.pid
        own = os.stat("/proc/self/ns/net").st_ino
        while os.stat(f"/proc/{self.pid}/ns/net").st_ino == own:
            if self._holder.poll() is not None:
                print("skipped: no second network namespace")
                sys.exit(SKIPPED)

    def run(self, *argv):
        subprocess.run(["nsenter", "--net", "--target", str(self.pid), "--", *argv], check=True)

    def close(self):
        self._holder.stdin.close()
        self._holder.wait()


def ip(command):
    subprocess.run(command.split(), check=True)


def wait_for_link(interface, peer=None):
    """Returns when the interface has its carrier. A busy kernel reports it a second or more after both ends were set
    up, and until then the port is down, as a card's is while its link trains."""
    enter = ["nsenter", "--net", "--target", str(peer.pid), "--"] if peer else []
    deadline = time.monotonic() + LINK_SECONDS_MAX
    while " UP " not in subprocess.run([*enter, "ip", "-brief", "link", "show", interface], check=True,
                                       capture_output=True, text=True).stdout:
        if time.monotonic() > deadline:
            sys.exit(f"FAILED: {interface} has no carrier after {LINK_SECONDS_MAX} s")
        time.sleep(0.01)


# For both ends: a MAC, and the link-local address that the kernel makes of it, as GID 0 does.
MAC_A, LINK_LOCAL_A = "06:00:77:00:00:01", "fe80::400:77ff:fe00:1"
MAC_B, LINK_LOCAL_B = "06:00:77:00:00:02", "fe80::400:77ff:fe00:2"


@contextlib.contextmanager
def joined_by_veth(address_a="10.77.0.1", address_b="10.77.0.2"):
    """Returns a second namespace, connected to this one as by an Ethernet cable (veth-a here, veth-b there), and both
    addresses."""
    peer = Namespace()
    try:
        ip(f"ip link add veth-a address {MAC_A} type veth peer name veth-b address {MAC_B} netns {peer.pid}")
        ip("ip link set veth-a addrgenmode none")
        peer.run(*"ip link set veth-b addrgenmode none".split())
        ip(f"ip address add {address_a}/24 dev veth-a")
        ip("ip link set veth-a up")
        for command in (f"ip address add {address_b}/24 dev veth-b", "ip link set veth-b up",
                        "ip link set lo up"):
            peer.run(*command.split())
        if os.path.exists("/proc/net/if_inet6"):
            # Instead of the kernel's, which is tentative for a second or two (RFC 4862): so GID 0
            # exists at once.
            ip(f"ip address add {LINK_LOCAL_A}/64 dev veth-a nodad")
            peer.run(*f"ip address add {LINK_LOCAL_B}/64 dev veth-b nodad".split())
        wait_for_link("veth-a")
        wait_for_link("veth-b", peer)
        yield peer, address_a, address_b
    finally:
        # This removes both ends at once; with its namespace the kernel would remove it some time
        # later.
        subprocess.run("ip link delete veth-a".split(), check=False, stderr=subprocess.DEVNULL)
        peer.close()
