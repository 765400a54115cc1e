#!/usr/bin/env python3
"""Runs what README shows, word for word, as a new user does: an ordinary one, whose PATH is that of `su -`."""

import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from run_page import become_ordinary, enter_namespaces, environment_of, show_tree, wait_for_agents

SECONDS_MAX = 240
# What a script needs beside a command that waits for Ctrl-C, or for a program that runs.
AROUND = {"verbatim capture": "{} --for 1s",
          "verbatim fault": "verbatim run --node a -- sleep 1000 &\nuntil {}; do sleep 0.1; done\nkill $!"}
# A person waits a second for a server.
LISTENS = "until ss -ltn | grep -q ':18515 '; do sleep 0.1; done"
# What the commands print, in this order.
PRINTED = r"65536 .*PORT_ACTIVE.*verbatim0.*ibv_devinfo.*Switch.*65536 "


def commands_of(text):
    """The commands in README's blocks, but for those that build and test the tree."""
    for block in re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            if line.startswith(("verbatim ", "eval ", "export ")):
                around = next((value for name, value in AROUND.items() if line.startswith(name)), "{}")
                yield around.format(line.partition(" #")[0].rstrip()).replace("& sleep 1", f"& {LISTENS}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, required=True, help="root of the source tree")
    parser.add_argument("--build", type=pathlib.Path, required=True, help="build folder")
    options = parser.parse_args()
    enter_namespaces()
    home = pathlib.Path(tempfile.mkdtemp(prefix="verbatim-readme."))
    try:
        show_tree(options.root.resolve(), options.build.resolve(), home)
        environment = environment_of(home, pathlib.Path("/nonexistent"))
        become_ordinary(home, [options.root, options.build])
        commands = list(commands_of((options.root / "README.md").read_text(encoding="utf-8")))
        script = "\n".join(["set -e", *commands, "cd; verbatim fabric down", "wait"])
        done = subprocess.run(["bash", "-c", script], cwd=home / "verbatim", env=environment, check=False, text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=SECONDS_MAX)
        print(done.stdout)
        left = wait_for_agents()
        if done.returncode == 0 and not left and re.search(PRINTED, done.stdout, re.DOTALL):
            return 0
        print(f"FAILED: status {done.returncode}; left: {left}; wanted: {PRINTED}; the script:\n{script}")
        return 1
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
