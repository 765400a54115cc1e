#!/usr/bin/env python3
"""Builds examples of C and C++ as a project of their own, which finds an installed Verbatim, and runs one of them."""

import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "programs"))
from testbed import Testbed, option_parser, wait_until  # noqa: E402 (found by the line above)

SECONDS_MAX = 30
EXAMPLES = ("cm_write", "counter")


def build(examples, installed, folder):
    """Installs to folder/prefix, builds in folder/build; returns the programs' folder."""
    prefix = folder / "prefix"
    commands = [["cmake", "--install", installed, "--prefix", prefix, "--component", component]
                for component in ("library", "development")]
    commands.append(["cmake", "-S", examples, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={prefix}"])
    commands.append(["cmake", "--build", folder / "build", "--target", *(f"example_{name}" for name in EXAMPLES)])
    for command in commands:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=120)
    return folder / "build/bin/examples"


def main():
    parser = option_parser(__doc__)
    parser.add_argument("examples", type=pathlib.Path, help="the folder examples/")
    options = parser.parse_args()
    with Testbed(options) as testbed, tempfile.TemporaryDirectory() as folder:
        programs = build(options.examples, options.build, pathlib.Path(folder))
        server = testbed.start("a", [f"{programs}/cm_write"])
        wait_until(lambda: server.ended() or testbed.bound_ports("a"), SECONDS_MAX, "the server to listen")
        testbed.expect_output("b", [f"{programs}/cm_write", testbed.address("a")], "wrote: ")
        server.expect_success(SECONDS_MAX)
        testbed.start("a", [f"{programs}/counter"])
        wait_until(lambda: testbed.bound_ports("a"), SECONDS_MAX, "the server to listen")
        testbed.expect_output("b", [f"{programs}/counter", testbed.address("a"), "add", "3"], "is 3 now")
    return 0


if __name__ == "__main__":
    sys.exit(main())
