"""What is run against Linux's rdma_rxe and siw, each with the server there and the client here, and the
other way round. `{port}` is where the server listens, `{gid}` the index of the GID of an IP version."""

from dataclasses import dataclass

RXE, BOTH = ("rxe",), ("rxe", "siw")  # siw has only rdma_cm.
GID_OF_IP = {4: 1, 6: 2}  # On both sides.


@dataclass(frozen=True)
class Row:
    server: str
    client: str  # The server's host is appended.
    port: int
    is_ours: bool = False  # A program of tests/peers: its lines "passed: ..." are rows of the report.
    ip: int = 4
    server_sides: tuple = ("theirs", "ours")
    seconds: int = 120
    stacks: tuple = BOTH

    def argv(self, text):
        return text.format(port=self.port, gid=GID_OF_IP[self.ip]).split()

    def host_ip(self):
        """Programs that choose a GID connect by TCP over IPv4."""
        return 4 if "{gid}" in self.client else self.ip

    def name(self):
        return " ".join(self.argv(self.client)) + (" (IPv6)" if self.ip == 6 else "")


def pair(command, port=18500, **more):
    return Row(command, command, port, **more)


SERVICES = {"send": ("RC", "UC", "UD"), "write": ("RC", "UC"), "read": ("RC",)}
PEER_CM = "peer_cm -p {port}"
PEER_SESSION = "peer_session -p {port} -g {gid}"

ROWS = [
    pair(PEER_SESSION, is_ours=True, seconds=900),
    Row(PEER_SESSION, f"{PEER_SESSION} -m 4096", 18500, is_ours=True, ip=6, seconds=300, stacks=RXE),
    *(pair(PEER_CM, 18700, is_ours=True, ip=ip) for ip in (4, 6)),
    *(pair(f"ibv_{kind}_pingpong -p {{port}} -g {{gid}} -n 100 -c", ip=ip, stacks=RXE)
      for kind in ("rc", "uc", "ud", "srq") for ip in (4, 6)),
    *(pair(f"ib_{work}_lat -p {{port}} -x {{gid}} -F -n 100 -c {service}", stacks=RXE)
      for work, services in SERVICES.items() for service in services),
    *(pair(f"ib_{work} -p {{port}} -x {{gid}} -F -n 100 -q 4", stacks=RXE)
      for work in ("send_bw -e", "write_bw", "read_bw -e", "atomic_bw -e")),
    # perftest connects a second time without waiting for its server to listen again, which is too
    # fast for the guest.
    *(pair(f"ib_{work} -p {{port}} -F -n 100 -R", server_sides=("ours",))
      for work in ("send_bw", "write_bw", "read_bw -e", "send_lat -e")),
    # It waits for an event after everything that it may send has completed, which over iWARP is too
    # early.
    pair("ib_send_bw -e -p {port} -F -n 100 -R", server_sides=("ours",), stacks=RXE),
    Row("rping -s -p {port} -V -C 20 -S 4000", "rping -c -p {port} -V -C 20 -S 4000 -a", 7174),
    Row("rping -s -a :: -p {port} -V -C 20 -S 4000", "rping -c -p {port} -V -C 20 -S 4000 -a", 7174, ip=6),
    Row("ucmatose -p {port} -c 3 -C 20 -S 5000", "ucmatose -p {port} -c 3 -C 20 -S 5000 -s", 7471),
    Row("udaddy -c 3 -C 20", "udaddy -c 3 -C 20 -s", 7174, stacks=RXE),
    Row("rdma_server -p {port}", "rdma_client -p {port} -s", 7471),
    Row("rstream -p {port} -T v -S 4096 -C 20", "rstream -p {port} -T v -S 4096 -C 20 -s", 7471),
    Row("riostream -p {port} -T v -S 4096 -C 20", "riostream -p {port} -T v -S 4096 -C 20 -s", 7471),
]
