"""How quickly opensm brings fabrics up, beside Debian's ibsim; what large and idle fabrics take; virtual time."""

import os
import pathlib
import re
import statistics
import subprocess
import time

from fabricbed import FabricBed, text_of
from measure import Failure, tail
from page import spread
from rows import KIB

SECONDS_MAX = 600
HOSTS = (100, 1000, 2000)  # Of fat trees under both.
LARGE_HOSTS = 10_000
IDLE_SWITCHES, SETTLING_SECONDS, IDLE_SECONDS = 1000, 3, 5
SIMULATOR = "/usr/lib/x86_64-linux-gnu/umad2sim/libumad2sim.so"
# Else opensm writes its log when the buffer is full.
CONFIGURATION = "force_log_flush TRUE\n"


def seconds_to_subnet_up(bed, environment):
    """From the start of opensm until its log says that the subnet is up."""
    configuration, log = f"{bed.folder}/opensm.conf", f"{bed.folder}/opensm.log"
    pathlib.Path(configuration).write_text(CONFIGURATION + f"dump_files_dir {bed.folder}\n", encoding="ascii")
    begin = time.monotonic()
    manager = start(bed, ["opensm", "-F", configuration, "-f", log], environment)
    try:
        while "SUBNET UP" not in text_of(log):
            if manager.poll() is not None or time.monotonic() > begin + SECONDS_MAX:
                raise Failure(f"opensm has not brought the subnet up:\n{tail(text_of(log))}")
            time.sleep(0.005)
        return time.monotonic() - begin
    finally:
        bed.end(manager)


def start(bed, words, environment):
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(words, cwd=bed.folder, env=environment, **quiet)


def on_ours(bed):
    # As the daemon starts it: `verbatim run` would start the host's agent first.
    environment = dict(entry.split("=", 1) for entry in bed.run("H1", "env", "-0").split("\0") if entry)
    return seconds_to_subnet_up(bed, environment)


def on_ibsim(bed, net):
    path = pathlib.Path(bed.folder, "net")
    path.write_text(net, encoding="ascii")
    words = ["ibsim", "-s", "-n", "-N", "16384", "-S", "4096", "-P", "524288", str(path)]
    environment = bed.environment()
    with start(bed, words, environment) as simulator:
        try:
            time.sleep(1)  # It says nothing when it is ready.
            environment |= {"SIM_HOST": "H1", "LD_PRELOAD": SIMULATOR}
            return seconds_to_subnet_up(bed, environment)
        finally:
            simulator.kill()


def manager_table(options, rounds, say):
    lines = ["| `opensm` from its start to SUBNET UP | Verbatim | Debian's `ibsim` | ratio | aim | met |", "|---|---|---|---|---|---|"]
    for hosts in HOSTS:
        ours, theirs = [], []
        for _ in range(rounds):
            with FabricBed(options) as bed:
                net = bed.verbatim("fabric", "generate", "fat-tree", "--hosts", str(hosts), "--format", "ibsim")
                theirs.append(on_ibsim(bed, net))
            with FabricBed(options) as bed:
                bed.up(net)
                ours.append(on_ours(bed))
            say(f"opensm, {hosts} hosts: {ours[-1]:.2f} s, ibsim {theirs[-1]:.2f} s")
        ratios = [own / other for own, other in zip(ours, theirs)]
        met = "yes" if statistics.median(ratios) <= 1 else "no"
        lines.append(f"| fat tree, {hosts:,} hosts | {spread(ours, 's')} | {spread(theirs, 's')} | {spread(ratios)} | at most 1 "
                     f"| {met} |")
    return lines


def daemon_of(bed):
    for pid in bed.processes():
        if text_of(f"/proc/{pid}/comm").startswith("verbatim-fabric"):
            return pid
    raise Failure("the fabric has no daemon")


def resident_mebibytes(pid):
    """Of the daemon; the fabric's shared pages are among them."""
    return int(re.search(r"VmRSS:\s+(\d+)", text_of(f"/proc/{pid}/status"))[1]) / KIB


def processor_seconds(pid):
    """Of user and system time."""
    fields = text_of(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def size_table(options, say):
    lines = ["| what | figure | aim | met |", "|---|---|---|---|"]
    with FabricBed(options) as bed:
        bed.up(bed.verbatim("fabric", "generate", "fat-tree", "--hosts", str(LARGE_HOSTS)))
        seconds, resident = on_ours(bed), resident_mebibytes(daemon_of(bed))
    say(f"{LARGE_HOSTS} hosts: {seconds:.1f} s, {resident:.0f} MiB")
    lines.append(f"| fat tree, {LARGE_HOSTS:,} hosts, SUBNET UP: the daemon's memory (time: {seconds:.1f} s) | {resident:.0f} MiB | "
                 f"at most 4,096 MiB | {'yes' if resident <= 4096 else 'no'} |")
    with FabricBed(options) as bed:
        # A torus of switches with five ports has one for each host.
        bed.up(bed.verbatim("fabric", "generate", "torus-2d", "--hosts", str(IDLE_SWITCHES), "--switch-ports", "5"))
        on_ours(bed)
        daemon = daemon_of(bed)
        time.sleep(SETTLING_SECONDS)  # After a manager that has been killed.
        before = processor_seconds(daemon)
        time.sleep(IDLE_SECONDS)
        used = processor_seconds(daemon) - before
    say(f"idle: {used} s")
    lines.append(f"| {IDLE_SWITCHES:,} idle switches, {IDLE_SECONDS} s: the daemon's processor time | {used:.2f} s | 0 s | "
                 f"{'yes' if used == 0 else 'no'} |")
    rate = virtual_packets(options)
    say(f"virtual time: {rate:.2f} M/s")
    lines.append(f"| 64 B across one switch in virtual time, one thread, batches of 16 | {rate:.2f} M/s | at least 5 M/s | "
                 f"{'yes' if rate >= 5 else 'no'} |")
    return lines


def virtual_packets(options):
    """Millions of packets a second, as bench_fabric_walk measures them."""
    output = subprocess.run([f"{options.build}/bin/bench_fabric_walk"], check=True, capture_output=True, text=True).stdout
    return 1000 / float(re.search(r"1 switches, in events, 16 +\d+ +([\d.]+)", output)[1])
