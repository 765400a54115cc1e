"""Which program runs how: the table of the pair tests. CMakeLists.txt makes a ctest of each row."""

from dataclasses import dataclass, replace

MTUS = (256, 512, 1024, 2048, 4096)
EIGHT_MIB = 8 << 20


@dataclass(frozen=True)
class Case:
    name: str
    program: str
    arguments: tuple
    rows: int  # Lines of figures that the client prints.
    is_long: bool  # Only in the long set.
    seconds: int = 60
    paths: tuple = ("auto", "wire")  # How the two may reach each other: see testbed.py.


def _words(text):
    return tuple(text.split())


def _pingpong():
    """ibverbs-utils: -c compares what was received, byte by byte of each page."""
    quick = {
        "ibv_rc_pingpong": ("-g 1 -c", "-g 0 -c", "-g 1 -c -e", "-g 0 -c -e", "-g 1 -c -s 1",
                            f"-g 1 -c -n 10 -s {EIGHT_MIB}"),
        "ibv_uc_pingpong": ("-g 1 -c", "-g 0 -c", "-g 1 -c -e", "-g 1 -c -s 1"),
        "ibv_ud_pingpong": ("-g 1 -c", "-g 0 -c", "-g 1 -c -e", "-g 0 -c -e", "-g 1 -c -s 1",
                            "-g 1 -c -s 4096"),
    }
    for program, variants in quick.items():
        for variant in variants:
            yield _pingpong_case(program, variant, is_long=False)
    for mtu in MTUS:
        for program in ("ibv_rc_pingpong", "ibv_uc_pingpong"):
            yield _pingpong_case(program, f"-g 1 -c -n 100 -m {mtu} -s 50001", is_long=False)
            yield _pingpong_case(program, f"-g 0 -c -e -n 100 -m {mtu} -s 4097", is_long=True)
        yield _pingpong_case("ibv_rc_pingpong", f"-g 1 -c -n 5 -m {mtu} -s {EIGHT_MIB}", is_long=True)


def _pingpong_case(program, variant, is_long):
    name = ".".join([program, *(word.lstrip("-") for word in variant.split())])
    return Case(name, program, _words(variant), rows=2, is_long=is_long)


# Messages of each size with -a: few for small packets, so that 8 MiB does not take long.
ITERATIONS = {256: 8, 512: 12, 1024: 20, 2048: 30, 4096: 40}
# Unreliable services get bursts that fit in the receive buffer of an ordinary user (208 KiB on
# Linux), because nothing slows a UC or UD sender down.
UNRELIABLE_BURST = 16
UC_SIZE_MAX = 65536


@dataclass(frozen=True)
class Shape:
    """Parameters of a perftest program. size None: all sizes from 2 bytes to 8 MiB (-a)."""
    connection: str = "RC"
    mtu: int = 4096
    size: int | None = None
    events: bool = False
    queue_pairs: int = 1
    bidirectional: bool = False


def _perftest(program, shape, is_long, extra=""):
    kind = program.removeprefix("ib_").split("_")[0]
    words = ["-F", "-m", str(shape.mtu)]
    name = [program, shape.connection, f"mtu{shape.mtu}"]
    iterations = ITERATIONS[shape.mtu]
    rows = 1
    if kind != "atomic":
        words += ["-c", shape.connection]
    if shape.connection != "RC":
        iterations = UNRELIABLE_BURST
    if shape.size is not None:
        words += ["-s", str(shape.size)]
        name.append(f"{shape.size}bytes")
    elif kind != "atomic":
        words.append("-a")
        name.append("all_sizes")
        rows = shape.mtu.bit_length() - 1 if shape.connection == "UD" else 23
    if kind == "atomic" or (shape.size is not None and shape.size < 4096):
        iterations = max(iterations, 1000 if shape.connection == "RC" else UNRELIABLE_BURST)
    if program.endswith("_lat"):
        iterations = 25 if shape.size is None else 1000
    words += ["-n", str(iterations)]
    if shape.events:
        words += ["-e", "-x", "1"]
        name.append("events")
    if shape.queue_pairs > 1:
        words += ["-q", str(shape.queue_pairs)]
        name.append(f"{shape.queue_pairs}qps")
    if shape.bidirectional:
        words.append("-b")
        name.append("bidirectional")
    if extra:
        words += extra.split()
        name.append(extra.split()[-1])
    paths = ("wire",) if _waits_for_ever(program, shape) else ("auto", "wire")
    return Case(".".join(name), program, tuple(words), rows, is_long, 120, paths)


RC_QUICK = (
    Shape(),
    Shape(mtu=1024, events=True, bidirectional=True),
    Shape(mtu=512, size=1),
    Shape(mtu=256, size=65536, queue_pairs=8),
    Shape(mtu=2048, size=EIGHT_MIB, queue_pairs=8, events=True, bidirectional=True),
)
UC_QUICK = (
    Shape("UC", 4096, 65536),
    Shape("UC", 1024, 2048, events=True),
    Shape("UC", 256, 1, queue_pairs=8),
    Shape("UC", 2048, 4096, bidirectional=True),
)
UD_QUICK = (
    Shape("UD"),
    Shape("UD", 1024, events=True),
    Shape("UD", 256, 1, queue_pairs=8),
    Shape("UD", 2048, 2048, bidirectional=True),
)


def _served(program, shape):
    """Returns the nearest shape that the program supports: perftest has no events for WRITE."""
    return replace(shape, events=False) if program.startswith("ib_write") else shape


def _bandwidth_quick():
    for program in ("ib_send_bw", "ib_write_bw", "ib_read_bw"):
        for shape in RC_QUICK:
            yield _perftest(program, _served(program, shape), is_long=False)
    for program in ("ib_send_bw", "ib_write_bw"):
        for shape in UC_QUICK:
            yield _perftest(program, _served(program, shape), is_long=False)
    for shape in UD_QUICK:
        yield _perftest("ib_send_bw", shape, is_long=False)
    for operation in ("CMP_AND_SWAP", "FETCH_AND_ADD"):
        for shape in (Shape(), Shape(mtu=256, events=True, queue_pairs=8),
                      Shape(mtu=1024, bidirectional=True)):
            yield _perftest("ib_atomic_bw", shape, False, f"-A {operation}")


LATENCIES = {
    "ib_send_lat": ("RC", "UC", "UD"),
    "ib_write_lat": ("RC", "UC"),
    "ib_read_lat": ("RC",),
    "ib_atomic_lat": ("RC",),
}


def _latency(mtus, is_long):
    for program, connections in LATENCIES.items():
        for connection in connections:
            for mtu in mtus:
                sizes = [None, 1]
                if program == "ib_atomic_lat":
                    sizes = [None]
                elif connection == "UC":
                    sizes = [UC_SIZE_MAX, 1]
                for size in sizes:
                    shape = Shape(connection, mtu, size)
                    yield _perftest(program, shape, is_long)
                    # perftest measures the CPU's clock for half a second per size.
                    with_events = _served(program, replace(shape, events=True))
                    yield _perftest(program, with_events, is_long or size is None)


def _waits_for_ever(program, shape):
    """Debian 12's perftest (4.5+0.17) takes no more than rx_depth completions per event, and limits rx_depth to the
    iterations. With several queue pairs in both directions it then waits for another event while completions are in
    its queue (fixed by perftest commit 14955fe, "Fix BW tests stuck pending completion event"). This happens on any
    device whose completions come faster than it wakes; large messages on the wire do not, and the quick set has such
    a run."""
    return program == "ib_send_bw" and shape.events and shape.queue_pairs > 1 and shape.bidirectional


def _bandwidth_long():
    services = {
        "ib_send_bw": ("RC", "UC", "UD"),
        "ib_write_bw": ("RC", "UC"),
        "ib_read_bw": ("RC",),
    }
    for program, connections in services.items():
        for connection in connections:
            for mtu in MTUS:
                for events in (False, True):
                    for queue_pairs in (1, 8):
                        for bidirectional in (False, True):
                            size = UC_SIZE_MAX // queue_pairs if connection == "UC" else None
                            shape = Shape(connection, mtu, size, events, queue_pairs,
                                          bidirectional)
                            if not _waits_for_ever(program, shape):
                                yield _perftest(program, _served(program, shape), is_long=True)


def all_cases():
    """Quick ones first; the long product leaves these out."""
    seen = set()
    for cases in (_pingpong(), _bandwidth_quick(), _latency((4096,), False),
                  _latency(MTUS, True), _bandwidth_long()):
        for case in cases:
            if case.name not in seen:
                seen.add(case.name)
                yield case
