#!/usr/bin/env python3
"""Compiles the public headers with each compiler and standard that is here, warnings are errors: all of them together
in a program, and each alone. Compilers that are not installed are skipped by name."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

COMPILERS = "g++-12", "g++-14", "clang++-19"
STANDARDS = "c++20", "c++23"
WARNINGS = "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"
PROGRAM = """#include <verbatim/verbatim.h>
verbatim::Task<> put(verbatim::QueuePair& qp, const verbatim::Buffer& buffer, verbatim::RemoteSlice to) {
  using std::chrono::milliseconds;
  (co_await qp.write(buffer.slice(0, 8), to)).value();
  (co_await with_timeout(qp.send(buffer.slice(), verbatim::Immediate{1}), milliseconds(5))).value();
}
int main() {
  auto domain = verbatim::Context::open().and_then([](verbatim::Context&& c) { return c.allocate_domain(); }).value();
  verbatim::Buffer buffer = domain.allocate(4096).value();
  verbatim::QueuePair qp = verbatim::connect(domain, "192.0.2.1", 1, {.timeout = std::chrono::seconds(1)}).value();
  const auto to = verbatim::RegionToken::from_bytes(qp.peer_data()).value();
  qp.batch().write(buffer.slice(0, 8), to).read(buffer.slice(8, 8), to).post().wait().value();
  qp.read(buffer.slice(), to).then([](const verbatim::Result<verbatim::Completion>&) {});
  verbatim::run(qp.completions(), put(qp, buffer, to));
}
"""


def compiles(compiler, standard, source, include):
    with tempfile.NamedTemporaryFile("w", suffix=".cpp") as file:
        file.write(source)
        file.flush()
        command = [compiler, f"-std={standard}", *WARNINGS, "-O1", "-c", "-o", "/dev/null", f"-I{include}", file.name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(f"{compiler} -std={standard}:\n{source}\n{done.stderr}")
    return done.returncode == 0


def main():
    include = Path(sys.argv[1]).resolve() / "include"
    found = [compiler for compiler in COMPILERS if shutil.which(compiler)]
    for compiler in COMPILERS:
        print(f"{compiler}: {'compiles' if compiler in found else 'skipped, is not installed'}")
    good = [compiles(compiler, standard, PROGRAM, include) for compiler in found for standard in STANDARDS]
    for header in sorted((include / "verbatim").glob("*.h")):
        good += [compiles(found[0], STANDARDS[0], f"#include <verbatim/{header.name}>\n", include)]
    sys.exit(0 if good and all(good) else 1)


if __name__ == "__main__":
    main()
