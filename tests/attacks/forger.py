"""A forger sees what is on the cable between two hosts, and answers it with packets of its own."""

import socket
import threading
import traceback

from packets import Attacker, raw_socket

ETH_P_ALL = 3


class Forger:
    """A context manager. Calls `forge(forger, packet)` in the forger's thread for the IP packets that it sees;
    `forge` may call `send`. An exception there fails the test at the end."""

    def __init__(self, hosts, forge):
        self._forge = forge
        # Packets for a host come from the other one.
        self._towards = {address: Attacker(hosts.pids["b" if node == "a" else "a"])
                         for addresses in (hosts.ipv4, hosts.ipv6) for node, address in addresses.items()}
        self._cable = raw_socket(None, socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
        self._cable.bind(("veth-a", ETH_P_ALL))
        self._cable.settimeout(0.05)
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._fault = None
        self.sent = 0

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, kind, *_):
        self._ends.set()
        self._thread.join()
        self._cable.close()
        if self._fault and kind is None:
            raise self._fault

    def send(self, address, packet):
        """Sends to a host's address; packets to other addresses are not sent."""
        if address in self._towards:
            self._towards[address].send(packet)
            self.sent += 1

    def _watch(self):
        while not self._ends.is_set():
            try:
                self._forge(self, self._cable.recv(0x10000))
            except TimeoutError:
                pass
            except Exception as fault:  # pylint: disable=broad-except
                traceback.print_exc()
                self._fault = fault
                return
