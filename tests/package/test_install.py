#!/usr/bin/env python3
"""Installs into a prefix, moves that elsewhere, and builds programs against it as a user would: with find_package and
with pkg-config. They run with the installed `verbatim run`, on both paths."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from testbed import Testbed, option_parser, wait_until

HERE = pathlib.Path(__file__).resolve().parent
OPTIONS = None
LAB = None  # Its `build` is the prefix, which also has bin/verbatim.
SECONDS_MAX = 60


def call(*words, **variables):
    """Runs a command and returns what it printed."""
    done = subprocess.run(words, env=os.environ | variables, text=True, check=False,
                          stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(words)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def prefix():
    return pathlib.Path(LAB.build)


def library_folder():
    """Returns the folder of the C++ library: lib, or lib and the architecture's name."""
    return next(prefix().glob("lib/**/libverbatim.so.1")).parent


def pkg_config(*words):
    return call("pkg-config", *words, PKG_CONFIG_PATH=str(library_folder() / "pkgconfig")).split()


def elf_files(folder):
    """Returns the programs and libraries of a folder and its subfolders."""
    for path in sorted(pathlib.Path(folder).rglob("*")):
        if path.is_file() and not path.is_symlink() and path.open("rb").read(4) == b"\x7fELF":
            yield str(path)


def search_places(files):
    """Returns (file, place) for each folder or file of which the loader is told: RPATH, RUNPATH, NEEDED with a slash."""
    file = None
    for line in call("readelf", "--wide", "--dynamic", *files).splitlines():
        if line.startswith("File: "):
            file = line.removeprefix("File: ")
        found = re.search(r"\((RPATH|RUNPATH|NEEDED)\).*\[(.*)\]", line)
        if found and (found[1] != "NEEDED" or "/" in found[2]):
            yield from ((file, place) for place in found[2].split(":"))


def run_pair(program):
    """Runs the program as server and as client, on two nodes, on both paths."""
    for path in ("auto", "wire"):
        for node in ("a", "b"):
            LAB.set_variables(node, VERBATIM_PATH=path)
        port = str(LAB.free_port())
        server = LAB.start("a", [program, "serve", port])
        wait_until(lambda port=port: int(port) in [bound["port"] for bound in LAB.bound_ports("a")],
                   SECONDS_MAX, "the server to listen")
        client = LAB.start("b", [program, LAB.address("a"), port])
        client.expect_success(SECONDS_MAX)
        server.expect_success(SECONDS_MAX)


class Install(unittest.TestCase):
    def test_nothing_names_the_place_where_it_was_built_or_first_installed(self):
        places = [OPTIONS.build, LAB.folder + "/first"]
        texts = [*prefix().rglob("*.cmake"), *prefix().rglob("*.pc")]
        self.assertGreaterEqual(len(texts), 4)
        for path in texts:
            for place in places:
                self.assertNotIn(place, path.read_text(encoding="utf-8"), path)

    def test_no_program_or_library_is_loaded_from_the_current_folder(self):
        files = [*elf_files(OPTIONS.build + "/bin"), *elf_files(OPTIONS.build + "/lib"), *elf_files(prefix())]
        self.assertIn(str(prefix() / "bin/verbatim"), files)
        places = list(search_places(files))
        self.assertIn((OPTIONS.build + "/bin/verbatim", "$ORIGIN/../lib/verbatim"), places)
        wrong = [(file, place) for file, place in places if not place.startswith(("/", "$ORIGIN"))]
        self.assertEqual(wrong, [])

    def test_libraries_are_found_by_cmake_and_the_program_runs(self):
        folder = LAB.folder + "/with-cmake"
        call("cmake", "-S", str(HERE / "program"), "-B", folder, "-DCMAKE_CXX_STANDARD=20",
             f"-DCMAKE_CXX_COMPILER={OPTIONS.compiler}", f"-DCMAKE_PREFIX_PATH={prefix()}")
        call("cmake", "--build", folder)
        run_pair(folder + "/own_program")
        if os.path.exists(folder + "/infinity_program"):
            LAB.start("a", [folder + "/infinity_program"]).expect_success(SECONDS_MAX)

    def test_another_minor_version_is_refused(self):
        folder = pathlib.Path(LAB.folder) / "too-new"
        folder.mkdir()
        (folder / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.20)\nproject(too_new LANGUAGES NONE)\n"
            "find_package(verbatim 0.2 REQUIRED)\n", encoding="utf-8")
        with self.assertRaisesRegex(AssertionError, "requested version"):
            call("cmake", "-S", str(folder), "-B", str(folder / "build"),
                 f"-DCMAKE_PREFIX_PATH={prefix()}")

    def test_libraries_are_found_by_pkg_config_and_the_program_runs(self):
        program = LAB.folder + "/with-pkg-config"
        call(OPTIONS.compiler, "-std=c++20", str(HERE / "program/own_program.cpp"), "-o", program,
             *pkg_config("--cflags", "--libs", "verbatim"), f"-Wl,-rpath,{library_folder()}")
        run_pair(program)
        if (library_folder() / "libinfinity.so.0").exists():
            self.assertIn("-linfinity", pkg_config("--libs", "infinity"))

    def test_the_prefix_holds_what_its_parts_need_and_hides_no_library(self):
        names = {path.name for path in library_folder().iterdir() if path.is_file()}
        self.assertFalse([name for name in names if "ibverbs" in name or "rdmacm" in name], names)
        private = {path.name for path in (prefix() / "lib/verbatim").iterdir()}
        self.assertLessEqual({"libibverbs.so.1", "librdmacm.so.1", "libverbatim-view.so",
                              "libisal.so.2"}, private)

    def test_the_agent_needs_no_library_that_a_system_may_lack(self):
        found = call("ldd", str(prefix() / "bin/verbatimd"))
        self.assertRegex(found, rf"libisal.so.2 => {LAB.folder}/")


def main():
    global OPTIONS, LAB  # pylint: disable=global-statement
    parser = option_parser(__doc__)
    parser.add_argument("--compiler", default="c++", help="C++ compiler")
    OPTIONS, rest = parser.parse_known_args()
    OPTIONS.build = os.path.abspath(OPTIONS.build)
    with Testbed(OPTIONS) as LAB:
        first = LAB.folder + "/first"
        LAB.build = LAB.folder + "/prefix"
        call("cmake", "--install", OPTIONS.build, "--prefix", first)
        shutil.move(first, LAB.build)
        unittest.main(argv=[sys.argv[0], *rest], verbosity=2)


if __name__ == "__main__":
    main()
