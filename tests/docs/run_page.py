#!/usr/bin/env python3
"""Does what a page of the guide says: writes its files, runs its commands in order, compares what they print.
In a scratch folder that is the home folder, in network and process namespaces of its own, without a network; where
root runs it, as user `nobody`."""

import argparse
import os
import pathlib
import pwd
import re
import shutil
import subprocess
import sys
import tempfile
import time

from page import PageError, blocks_of, is_copy
from terminal import Terminal

SKIPPED = 77
STAT = re.compile(r"\d+ \((.*)\) (\w)", re.DOTALL)
NEEDS = re.compile(r"^<!-- needs: (\S+) -->$", re.MULTILINE)
AGENT_SECONDS_MAX = 10  # An agent exits half a second after its last program.


def skip_without_needs(page, prefix):
    """A page whose first lines say `<!-- needs: FILE -->` is run where these files are, of the system or the
    prefix."""
    for need in NEEDS.findall(page.read_text(encoding="utf-8")):
        if not (prefix / need).exists():  # An absolute path is itself.
            print(f"skipped: {need} is missing")
            sys.exit(SKIPPED)


def enter_namespaces():
    """Starts this script again with separate loopback and process namespaces. Processes that it leaves end with
    it."""
    if os.environ.get("VERBATIM_TEST_INSIDE") == "1":
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    flags = ["--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0:
        flags += ["--user", "--map-root-user"]
    if subprocess.run(["unshare", *flags, "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        print("skipped: this machine lets an ordinary user have no namespaces; run as root")
        sys.exit(SKIPPED)
    environment = dict(os.environ, VERBATIM_TEST_INSIDE="1")
    os.execvpe("unshare", ["unshare", *flags, sys.executable, "-B", *sys.argv], environment)


def environment_of(home, prefix):
    """Returns the environment of a user who has installed Verbatim to `prefix`."""
    runtime = home / ".runtime"
    runtime.mkdir(mode=0o700)
    return {"HOME": str(home), "XDG_RUNTIME_DIR": str(runtime), "LANG": "C.UTF-8", "TMPDIR": str(home),
            "PATH": f"{prefix}/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games",
            "PKG_CONFIG_PATH": f"{prefix}/lib/pkgconfig", "CMAKE_PREFIX_PATH": str(prefix),
            "LD_RUN_PATH": f"{prefix}/lib"}


def show_tree(root, build, home):
    """Makes ~/verbatim the guide's clone, which is already built."""
    clone = home / "verbatim"
    clone.mkdir()
    for entry in root.iterdir():
        if entry.name != "build":
            (clone / entry.name).symlink_to(entry)
    (clone / "build").symlink_to(build)


def become_ordinary(home, readable):
    """Root becomes `nobody`, who owns the home folder; not in a namespace that knows no other user, nor where the tree
    is root's alone."""
    uid_map = pathlib.Path("/proc/self/uid_map").read_text(encoding="ascii").split()
    if os.geteuid() != 0 or uid_map != ["0", "0", "4294967295"]:
        return
    nobody = pwd.getpwnam("nobody")
    drop = ["setpriv", f"--reuid={nobody.pw_uid}", f"--regid={nobody.pw_gid}", "--clear-groups", "--"]
    if any(subprocess.run([*drop, "ls", folder], capture_output=True, check=False).returncode for folder in readable):
        print("as root: other users may not read the tree")
        return
    for path in (home, *home.rglob("*")):
        os.chown(path, nobody.pw_uid, nobody.pw_gid, follow_symlinks=False)
    os.setgroups([])
    os.setresgid(nobody.pw_gid, nobody.pw_gid, nobody.pw_gid)
    os.setresuid(nobody.pw_uid, nobody.pw_uid, nobody.pw_uid)


class Run:
    """A page, from its first block to its last."""

    def __init__(self, root, home, environment):
        self._root = root
        self._home = home
        self._environment = environment
        self._terminals = {}

    def page(self, text):
        for block in blocks_of(text):
            if block.reason:
                print(f"not run: line {block.line}: {block.reason}")
            elif block.kind == "file":
                self._file(block)
            elif block.kind == "console":
                self._console(block)
        for terminal in self._terminals.values():
            terminal.finish()

    def _file(self, block):
        original = self._root / block.file
        if "/" in block.file and original.is_file():
            if not is_copy(block, original.read_text(encoding="utf-8")):
                raise PageError(f"line {block.line}: these are not lines of {block.file}")
            return
        path = self._home / block.file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text(), encoding="utf-8")

    def _console(self, block):
        commands = block.commands()
        for command in commands:
            if command.terminal not in self._terminals:
                self._terminals[command.terminal] = Terminal(self._home, self._environment)
            terminal = self._terminals[command.terminal]
            terminal.finish(status_is_shown=command.text == "echo $?")
            terminal.start(command)
            # A command in a named terminal may continue while the other terminal runs its own.
            if command.terminal:
                terminal.wait_until_it_begins()
            elif command is commands[-1]:
                terminal.finish()

    def close(self):
        for terminal in self._terminals.values():
            terminal.close()


def wait_for_agents():
    """Returns the names of the processes that still run after the page's end. (Zombies, state Z, are reaped by
    init.)"""
    deadline = time.monotonic() + AGENT_SECONDS_MAX
    while True:
        left = []
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                name, state = STAT.match((folder / "stat").read_text(encoding="utf-8")).groups()
            except OSError:
                continue  # It has ended.
            if state != "Z" and int(folder.name) not in (1, os.getpid()):
                left.append(name)
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.02)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("--root", type=pathlib.Path, required=True, help="root of the source tree")
    parser.add_argument("--build", type=pathlib.Path, required=True, help="build folder")
    parser.add_argument("--prefix", type=pathlib.Path, required=True, help="where Verbatim is installed")
    options = parser.parse_args()
    skip_without_needs(options.page, options.prefix)
    enter_namespaces()
    home = pathlib.Path(tempfile.mkdtemp(prefix="verbatim-guide."))
    run = None
    try:
        show_tree(options.root.resolve(), options.build.resolve(), home)
        environment = environment_of(home, options.prefix.resolve())
        text = options.page.read_text(encoding="utf-8")
        if "cmake --install" in text:
            print("as the owner of the build, into which an installation writes")
        else:
            become_ordinary(home, [options.root, options.build, options.prefix])
        run = Run(options.root, home, environment)
        run.page(text)
        run.close()
        left = wait_for_agents()
        if left:
            raise PageError(f"these processes stay: {' '.join(left)}")
    except PageError as error:
        print(f"FAILED: {options.page.name}: {error}")
        return 1
    finally:
        if run:
            run.close()
        shutil.rmtree(home, ignore_errors=True)
    print(f"passed: {options.page.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
