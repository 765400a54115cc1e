"""Writes docs/benchmarks.md from figures. What people have written below its first "## " stays."""

import os
import platform
import statistics
import subprocess

from measure import ROOT
from plot import size_text
from rows import DIRECT, ROWS

PACKAGES = ("perftest", "ucx-utils", "libfabric-bin", "qperf", "iperf3")
THREADS = {"1": "one thread, one queue pair", "2": "two threads, two queue pairs"}


def path_text(path):
    return "direct" if path == DIRECT else path


def bytes_text(task):
    return f", {size_text(task.size)}" if task.size else ""


def limit_text(task):
    name, *options = task.words.split()
    if name == "ping_pong":
        return "cache line from processor to processor"
    if name == "copy":
        return f"memcpy{bytes_text(task)}"
    count = int(options[0])
    how = "one a call" if count == 1 else f"segmentation offload, {count} a call"
    return f"UDP, datagrams of {task.size:,} B, {how}"


# The description of each tool's task in the table.
TEXTS = {
    "perftest": lambda task: f"`{task.words}`{bytes_text(task)}, {path_text(task.over)}",
    "threads": lambda task: f"WRITE, 8 B, {path_text(task.over)}: {THREADS[task.words]}",
    "queue_pairs": lambda task: f"memory of an RC queue pair ({int(task.words):,} in one program)",
    "limit": limit_text,
    "ucx": lambda task: f"UCX `{task.words}`{bytes_text(task)}, {task.over}",
    "fabric": lambda task: f"libfabric `fi_pingpong`{bytes_text(task)}, {task.over}",
    "qperf": lambda task: f"`qperf {task.words}`{bytes_text(task)}",
    "iperf3": lambda task: f"TCP, `iperf3`{bytes_text(task)} a call",
}


def task_text(task):
    return TEXTS[task.tool](task)


def present(values):
    """Returns the rounds that have a figure."""
    return [value for value in values if value is not None]


def digits(value):
    """Returns the value with three significant digits, without an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def spread(values, unit=""):
    """Returns "median (least to greatest)"."""
    values = present(values)
    if not values:
        return "no figure"
    middle = f"{digits(statistics.median(values))}{unit and ' ' + unit}"
    if len(values) == 1:
        return middle
    return f"{middle} ({digits(min(values))} to {digits(max(values))})"


def ratios(ours, peers):
    """Returns our figures divided by the peer's, round by round."""
    return [own / other for own, other in zip(ours, peers) if own is not None and other]


def aim_text(aim, unit):
    bound = f"at {'least' if aim.is_least else 'most'} {aim.bound:g}"
    return bound if aim.of_ratio else f"{bound} {unit}"


def verdict(aim, values):
    """Returns yes or no; nothing without a goal or without a figure."""
    if aim is None or not values:
        return ""
    middle = statistics.median(values)
    return "yes" if (middle >= aim.bound if aim.is_least else middle <= aim.bound) else "no"


def row_text(row, figures):
    ours = figures[row.ours]
    peers = figures[row.peer] if row.peer else []
    quotients = ratios(ours, peers)
    cells = [
        task_text(row.ours),
        spread(ours, row.ours.unit),
        f"{task_text(row.peer)}: {spread(peers, row.peer.unit)}" if row.peer else row.published,
        spread(quotients) if row.peer else "",
        aim_text(row.aim, row.ours.unit) if row.aim else "",
        verdict(row.aim, quotients if row.aim and row.aim.of_ratio else present(ours)),
    ]
    return f"| {' | '.join(cells)} |"


def output_of(argv):
    """Returns the output; nothing if the command fails."""
    try:
        return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def machine():
    model = "unknown processor"
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return f"{os.cpu_count()} processors ({model}), Linux {platform.release()}"


def versions():
    listed = output_of(["dpkg-query", "-W", "-f", "${Package} ${Version}, ", *PACKAGES])
    commit = output_of(["git", "-C", str(ROOT), "describe", "--always", "--dirty"])
    return ", ".join(part for part in (f"Verbatim {commit}", listed.rstrip(", ")) if part)


INTRODUCTION = """\
# Benchmarks
Written by `bench/compare`, which runs Verbatim, its peers and the bare limits of the machine in turn, in one run.
Figures are medians of all rounds (least to greatest). The ratio is ours divided by the peer's of the same round.
Latencies are one way, but those of READ and atomics, which are there and back; `fi_pingpong` and `qperf` give the
mean, all others the median. M/s: millions of messages a second. Verbatim runs under Debian's perftest between two
nodes, both ends polling: *direct* is shared memory (`VERBATIM_PATH=auto`), *wire* is RoCE v2 in UDP over loopback,
MTU 4096 (`VERBATIM_PATH=wire`).
"""


def page(figures, rounds, plot_name):
    """Returns the generated text, which comes before the hand-written part."""
    return "\n".join([
        INTRODUCTION,
        f"Machine: {machine()}. Rounds: {rounds}.",
        f"Versions: {versions()}.",
        "",
        "| what | Verbatim | limit or peer | ratio | aim | met |",
        "|---|---|---|---|---|---|",
        *(row_text(row, figures) for row in ROWS),
        "",
        f"![Latency and bandwidth over the size of a message]({plot_name})",
        "",
    ])


def write_page(text, target):
    """Replaces the generated part of `target`."""
    old = target.read_text(encoding="utf-8") if target.exists() else ""
    _, heading, notes = old.partition("\n## ")
    target.write_text(text + heading + notes, encoding="utf-8")
