#!/usr/bin/env python3
"""A drop-in calls no cancellation point of the C library (pthreads(7)) that src/dropin/cancellation does not replace:
a thread that is cancelled there would end the program."""
import argparse
import re
import subprocess
import sys

# pthreads(7), "Cancellation points", with glibc's variants; of those that may be one, what writes or reads files.
POINTS = re.compile(
    r"accept4?|aio_suspend|clock_nanosleep|close|connect|copy_file_range|creat(64)?|eventfd_(read|write)|epoll_p?wait2?"
    r"|fallocate(64)?|posix_fallocate(64)?|fcntl(64)?|fdatasync|fsync|getrandom|lockf(64)?|mq_\w+|msgrcv|msgsnd"
    r"|msync|nanosleep|open(at)?(64)?|pause|__poll_chk|p?poll|p?select|p(read|write)v?2?(64)?|pthread_cond_\w*wait"
    r"|pthread_(timed|clock)?join(_np)?|(__)?readv?(_chk)?|(__)?recv(from|msg|mmsg)?(_chk)?|sem_\w*wait"
    r"|send(to|msg|mmsg)?|sig(pause|suspend|timedwait|wait|waitinfo)|sleep|splice|system|tcdrain|tee|usleep|vmsplice"
    r"|wait([34]|id|pid)?|writev?"
    r"|f?open(64)?|freopen(64)?|popen|pclose|fclose|fflush|fput[cs]|fput[cs]_unlocked|fread|fwrite|fget[cs]|put(s|char)"
    r"|(__)?v?d?f?printf(_chk)?|(__isoc99_)?f?scanf|(__)?getdelim|getline|getaddrinfo|getnameinfo|syslog")
# Called where a thread may end: base/os/cancellation_point.h.
WANTED = {"__read", "__poll"}


def imported(library):
    table = subprocess.run(["nm", "-D", "--undefined-only", library], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in table.splitlines()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--functions", required=True)
    parser.add_argument("--library", action="append", required=True)
    arguments = parser.parse_args()
    replaced = {line.strip() for line in open(arguments.functions) if not line.startswith("#")}
    faults = []
    for library in arguments.library:
        names = imported(library)
        if any(name.startswith(("__asan_", "__tsan_", "__ubsan_")) for name in names):
            sys.exit(77)  # Sanitizers replace these functions themselves.
        points = {name for name in names if POINTS.fullmatch(name)} - WANTED
        faults += [f"{library} calls {name}: give it a replacement" for name in sorted(points - replaced)]
    print(*faults, sep="\n")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
