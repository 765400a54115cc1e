"""What a test has started ends with the test, whether that returns, fails, or is killed: by Ctrl-C, or by ctest for its
time limit. Daemons have left their parents, so a test's are known by its folders, which their environments or commands
name."""

import contextlib
import glob
import os
import select
import shutil
import signal
import tempfile
import time

PLACES = ("/tmp", "/dev/shm")
POLL_SECONDS = 0.01
KILL_SECONDS_MAX = 60  # A process that the kernel does not let go yet.

_mark = ""  # Which the names of this process's folders begin with.


def new_folder(name, place="/tmp"):
    """Makes a folder for programs of this test, below one of PLACES. Both are gone soon after this process has ended."""
    global _mark
    if not _mark:
        _mark = f"verbatim-{os.urandom(4).hex()}-"
        _start_guard()
    return tempfile.mkdtemp(prefix=f"{_mark}{name}-", dir=place)


def processes_that_name(text):
    """Returns the ids of processes with the text in their environment or command; not this one's. Where a shell
    stands or stood is no sign of a test's process: somebody may look at its folder."""
    wanted = os.fsencode(text)
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        for file in ("environ", "cmdline"):
            with contextlib.suppress(OSError), open(f"/proc/{entry}/{file}", "rb") as words:  # It may have ended.
                named = [word for word in words.read().split(b"\0") if wanted in word]
                if int(entry) != os.getpid() and not all(word.startswith((b"PWD=", b"OLDPWD=")) for word in named):
                    found.append(int(entry))
                    break
    return found


def end_processes_that_name(text):
    """Returns when none is left, or after KILL_SECONDS_MAX."""
    deadline = time.monotonic() + KILL_SECONDS_MAX
    while (left := processes_that_name(text)) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(POLL_SECONDS)


def _start_guard():
    """Starts a process that waits for the end of this one. It is nobody's child and in no group of this one's: ctest
    kills a test's descendants, and a terminal its group."""
    test = os.pidfd_open(os.getpid())
    middle = os.fork()
    if middle != 0:
        os.waitpid(middle, 0)
        os.close(test)
        return
    try:
        os.setsid()
        if os.fork() == 0:
            _guard(test)
    finally:
        os._exit(0)


def _guard(test):
    _let_go_of_all_but(test)
    select.select([test], [], [])
    end_processes_that_name(_mark)
    for place in PLACES:
        for folder in glob.glob(f"{place}/{_mark}*"):
            shutil.rmtree(folder, ignore_errors=True)


def _let_go_of_all_but(test):
    """The test's readers would wait for this process, too."""
    null = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(null, standard)
    os.closerange(3, test)
    os.closerange(test + 1, os.sysconf("SC_OPEN_MAX"))
    os.chdir("/")
