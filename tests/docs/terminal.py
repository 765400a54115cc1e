"""A terminal: one bash that is given a page's commands, and what they print."""

import os
import re
import signal
import subprocess
import threading
import time

from page import PageError, normal

SECONDS_MAX = 120  # For one command on a busy machine.
END = re.compile(r"\n@@ended (\d+) (\d+)@@\n")


class Terminal:
    """Runs one command at a time. A command may continue while other terminals run theirs: call `finish` before the
    next one."""

    def __init__(self, folder, environment):
        self._bash = subprocess.Popen(
            ["bash", "--norc", "--noprofile"], cwd=folder, env=environment, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        self._printed = ""
        self._changed = threading.Condition()
        self._number = 0
        self._closed = False
        self.command = None
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        while True:
            data = os.read(self._bash.stdout.fileno(), 65536)
            with self._changed:
                self._printed += data.decode(errors="replace")
                self._closed = not data
                self._changed.notify_all()
            if not data:
                return

    def start(self, command):
        """Starts the command. Requires that the command before has finished."""
        self.command = command
        self._began = time.monotonic()
        self._number += 1
        with self._changed:
            self._printed = ""
        self._bash.stdin.write(f"{{\n{command.text}\n}} </dev/null\nstatus=$?\n"
                               f"printf '\\n@@ended {self._number} %d@@\\n' $status\n(exit $status)\n")
        self._bash.stdin.flush()

    def _lines(self):
        return normal(END.sub("\n", self._printed))

    def _status(self):
        found = END.search(self._printed)
        return int(found[2]) if found and int(found[1]) == self._number else None

    def _wait(self, condition, what):
        deadline = time.monotonic() + SECONDS_MAX
        with self._changed:
            while not condition():
                left = deadline - time.monotonic()
                if left <= 0 or self._closed:
                    self._fail(what)
                self._changed.wait(left)

    def wait_until_it_begins(self):
        """Waits for the first line that it must print, or for its end."""
        first = self.command.pattern(self.command.expected[:1])
        self._wait(lambda: self._status() is not None or (self.command.expected and first.match(self._lines())),
                   f"did not print its first line within {SECONDS_MAX} seconds")

    def finish(self, status_is_shown=False):
        """Waits for its end, and compares. `status_is_shown`: the page shows the status, which may be a failure."""
        if self.command is None:
            return
        self._wait(lambda: self._status() is not None, f"did not end within {SECONDS_MAX} seconds")
        if self._status() != 0 and not status_is_shown:
            self._fail(f"ended with status {self._status()}")
        if self.command.expected and not self.command.pattern().fullmatch(self._lines()):
            self._fail("printed something else")
        print(f"{time.monotonic() - self._began:6.1f} s  {self.command.text}", flush=True)
        self.command = None

    def _fail(self, what):
        shown = "".join(f"  {line}\n" for line in self.command.expected) or "  (not shown)\n"
        printed = "".join(f"  {line}\n" for line in self._lines().splitlines()) or "  nothing\n"
        raise PageError(f"line {self.command.line}: the command {what}:\n  {self.command.text}\n"
                        f"the page shows:\n{shown}it has printed:\n{printed}")

    def close(self):
        """Ends bash and all its children."""
        try:
            os.killpg(self._bash.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._bash.wait()
        self._bash.stdin.close()
        self._reader.join()
        self._bash.stdout.close()
