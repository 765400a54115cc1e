"""What bench/compare measures: the rows of the table and the curves of the plot."""

from dataclasses import dataclass

from measure import Task

KIB = 1 << 10
DIRECT = "auto"
WIRE = "wire"
# Bytes of a RoCE packet with MTU 4096 in a datagram, and how many one call can send.
PACKET = 4096 + 12 + 4
PACKETS_OF_CALL = 15


@dataclass(frozen=True)
class Aim:
    """A goal: a bound of the ratio to the peer's figure or, if `of_ratio` is false, of our own figure."""
    bound: float
    is_least: bool
    of_ratio: bool = True


@dataclass(frozen=True)
class Row:
    """A row of the table: our figure and a peer's. Without a peer: a published figure, or none."""
    ours: Task
    peer: Task | None = None
    aim: Aim | None = None
    published: str = ""


@dataclass(frozen=True)
class Curve:
    """A line of a plot. `tasks` has one for each size."""
    label: str
    colour: str
    is_ours: bool
    tasks: tuple[Task, ...]


@dataclass(frozen=True)
class Panel:
    """A plot: figures over the size of a message."""
    title: str
    curves: tuple[Curve, ...]


def verbs(words, path, unit="us", size=0):
    return Task("perftest", words, unit, path, size)


def ucx(test, transports, unit="us", size=8):
    return Task("ucx", test, unit, transports, size)


def fabric(provider, endpoint, size=8):
    return Task("fabric", f"-e {endpoint}", "us", provider, size)


def at_most(bound, of_ratio=True):
    return Aim(bound, False, of_ratio)


def at_least(bound, of_ratio=True):
    return Aim(bound, True, of_ratio)


PING_PONG = Task("limit", "ping_pong", "us")
UDP_SEGMENTS = Task("limit", f"udp {PACKETS_OF_CALL}", "GB/s", size=PACKET)
UDP = Task("limit", "udp 1", "GB/s", size=PACKET)
UDP_RATE = Task("limit", "udp 1", "M/s", size=64)
CARDS = "ConnectX class, published: 1.6 us"

WRITE_LATENCY = verbs("ib_write_lat", DIRECT, size=8)
SEND_LATENCY = verbs("ib_send_lat", DIRECT, size=8)
WRITE_BANDWIDTH = verbs("ib_write_bw", DIRECT, "GB/s", 64 * KIB)
SEND_BANDWIDTH_ON_WIRE = verbs("ib_send_bw", WIRE, "GB/s", 64 * KIB)
SEND_LATENCY_ON_WIRE = verbs("ib_send_lat", WIRE, size=8)
TCP_BANDWIDTH = Task("iperf3", "", "GB/s", size=128 * KIB)

ROWS = (
    Row(WRITE_LATENCY, PING_PONG, at_most(1.5)),
    Row(WRITE_LATENCY, ucx("ucp_put_lat", "posix")),
    Row(SEND_LATENCY, ucx("tag_lat", "posix"), at_most(0.5)),
    Row(SEND_LATENCY, fabric("shm", "rdm")),
    Row(WRITE_BANDWIDTH, Task("limit", "copy", "GB/s", size=64 * KIB), at_least(0.85)),
    Row(WRITE_BANDWIDTH, ucx("tag_bw", "posix,cma", "GB/s", 64 * KIB)),
    Row(verbs("ib_write_bw -l 64", DIRECT, "M/s", 8), ucx("tag_bw", "posix", "M/s"), at_least(2.5)),
    Row(verbs("ib_write_bw", DIRECT, "M/s", 8), ucx("tag_bw", "posix", "M/s"), at_least(1.5)),
    Row(Task("threads", "2", "M/s", DIRECT), Task("threads", "1", "M/s", DIRECT), at_least(1.8)),
    Row(verbs("ib_read_lat", DIRECT, size=8), aim=at_most(0.25, of_ratio=False), published=CARDS),
    Row(verbs("ib_atomic_lat", DIRECT), aim=at_most(0.25, of_ratio=False), published=CARDS),
    Row(SEND_BANDWIDTH_ON_WIRE, UDP_SEGMENTS, at_least(0.75)),
    Row(SEND_BANDWIDTH_ON_WIRE, UDP),
    Row(SEND_BANDWIDTH_ON_WIRE, TCP_BANDWIDTH, at_least(1.2)),
    Row(SEND_BANDWIDTH_ON_WIRE, ucx("tag_bw", "tcp", "GB/s", 64 * KIB)),
    Row(verbs("ib_write_bw", WIRE, "GB/s", 64 * KIB), TCP_BANDWIDTH),
    Row(SEND_LATENCY_ON_WIRE, Task("qperf", "udp_lat", "us", size=8), at_most(0.6)),
    Row(SEND_LATENCY_ON_WIRE, Task("qperf", "tcp_lat", "us", size=8)),
    Row(SEND_LATENCY_ON_WIRE, ucx("tag_lat", "tcp")),
    Row(SEND_LATENCY_ON_WIRE, fabric("tcp", "msg")),
    Row(verbs("ib_send_bw -q 8", WIRE, "M/s", 64), UDP_RATE, at_least(1.0, of_ratio=False)),
    Row(verbs("ib_write_bw -q 8", WIRE, "M/s", 64), UDP_RATE, at_least(1.0, of_ratio=False)),
    Row(Task("queue_pairs", "1000", "KiB", WIRE), aim=at_most(64, of_ratio=False)),
)

SIZES = (8, 64, 512, 4 * KIB, 64 * KIB, 1024 * KIB)
# Legible on white and on black.
BLUE, GREEN, ORANGE, PURPLE, PINK, OCHRE, GREY, TEAL = (
    "#2f81f7", "#299764", "#d9622b", "#8957e5", "#c74e9b", "#a87b00", "#7d8590", "#1b96a8")


def latency(label, colour, make, is_ours=False):
    return Curve(label, colour, is_ours, tuple(make(size) for size in SIZES))


def bandwidth(label, colour, make, is_ours=False):
    """Without 8-byte messages, whose rate is in the table."""
    return Curve(label, colour, is_ours, tuple(make(size) for size in SIZES[1:]))


PANELS = (
    Panel("Latency one way, us", (
        latency("ib_write_lat, direct", BLUE, lambda s: verbs("ib_write_lat", DIRECT, size=s), True),
        latency("ib_send_lat, direct", GREEN, lambda s: verbs("ib_send_lat", DIRECT, size=s), True),
        latency("ib_send_lat, wire", ORANGE, lambda s: verbs("ib_send_lat", WIRE, size=s), True),
        latency("UCX tag_lat, posix,cma", PURPLE, lambda s: ucx("tag_lat", "posix,cma", size=s)),
        latency("libfabric, shm", PINK, lambda s: fabric("shm", "rdm", s)),
        latency("UCX tag_lat, tcp", OCHRE, lambda s: ucx("tag_lat", "tcp", size=s)),
        latency("qperf tcp_lat", GREY, lambda s: Task("qperf", "tcp_lat", "us", size=s)),
    )),
    Panel("Bandwidth, GB/s", (
        bandwidth("memcpy", TEAL, lambda s: Task("limit", "copy", "GB/s", size=s)),
        bandwidth("ib_write_bw, direct", BLUE, lambda s: verbs("ib_write_bw", DIRECT, "GB/s", s), True),
        bandwidth("ib_send_bw, direct", GREEN, lambda s: verbs("ib_send_bw", DIRECT, "GB/s", s), True),
        bandwidth("ib_send_bw, wire", ORANGE, lambda s: verbs("ib_send_bw", WIRE, "GB/s", s), True),
        bandwidth("UCX tag_bw, posix,cma", PURPLE, lambda s: ucx("tag_bw", "posix,cma", "GB/s", s)),
        bandwidth("UCX tag_bw, tcp", OCHRE, lambda s: ucx("tag_bw", "tcp", "GB/s", s)),
        bandwidth("iperf3 TCP", GREY, lambda s: Task("iperf3", "", "GB/s", size=s)),
    )),
)


def tasks():
    """Returns each task once, in the order of the rows and then by size, so that compared tasks run one after the
    other."""
    wanted = []
    for row in ROWS:
        wanted += [row.ours, row.peer]
    for panel in PANELS:
        for same_size in zip(*(curve.tasks for curve in panel.curves)):
            wanted += same_size
    return tuple(dict.fromkeys(task for task in wanted if task is not None))
