#!/usr/bin/env python3
"""The units are what systemd takes, and take from their programs what they do not need."""

import os
import shutil
import subprocess
import sys
import tempfile

from units import UNITS, unit_text

SKIPPED = 77
# systemd-analyze's exposure level, from 0 to 100.
EXPOSURE_MAX = {"system": 30, "user": 70}


def analyze(*words, folder):
    environment = os.environ | {"SYSTEMD_UNIT_PATH": folder + ":", "XDG_RUNTIME_DIR": folder}
    done = subprocess.run(["systemd-analyze", *words], env=environment, text=True, check=False,
                          capture_output=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def main():
    if not shutil.which("systemd-analyze"):
        print("skipped: there is no systemd-analyze (package systemd)")
        return SKIPPED
    build = sys.argv[sys.argv.index("--build") + 1]
    faults = 0
    for kind, unit in UNITS:
        with tempfile.TemporaryDirectory(prefix="verbatim-units.") as folder:
            path = f"{folder}/{unit}a.service"
            with open(path, "w", encoding="utf-8") as file:
                file.write(unit_text(build, kind, unit))
            status, output = analyze("verify", "--man=no", *(["--user"] if kind == "user" else []), path, folder=folder)
            ours = [line for line in output.splitlines() if "verbatim" in line]
            if ours or status != 0:
                print(f"{kind}: systemd-analyze verify ends with {status}: {output}")
                faults += 1
            most = f"--threshold={EXPOSURE_MAX[kind]}"
            status, output = analyze("security", "--offline=yes", most, path, folder=folder)
            print(f"{kind}: {output.splitlines()[-1] if output else 'no output'}")
            if status != 0:
                print(output)
                faults += 1
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
