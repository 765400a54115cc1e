#!/usr/bin/env python3
"""Programs written for Infinity, each as server on node a and client on node b: that of issue 28 and, from a tree
of Infinity's sources that lies on this machine, Infinity's own examples. Nothing is fetched."""

import os
import pathlib
import re
import subprocess
import sys

from testbed import SKIPPED, Testbed, option_parser

SECONDS_MAX = 60
ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(testbed, server, client, port):
    testbed.start_server("a", server, port)
    testbed.start("b", client).expect_success(SECONDS_MAX)
    testbed.programs[-2].expect_success(SECONDS_MAX)
    print("passed:", *client, flush=True)


def compile_example(testbed, source, port, compiler):
    """Compiles the example; changes its two constants, which name another machine."""
    text = source.read_text(encoding="utf-8")
    for name, value in (("SERVER_IP", f'"{testbed.address("a")}"'), ("PORT_NUMBER", port)):
        text, count = re.subn(rf"^#define {name} .*$", f"#define {name} {value}", text, flags=re.MULTILINE)
        if count != 1:
            sys.exit(f"{source} does not define {name}")
    changed = pathlib.Path(testbed.folder) / source.name
    changed.write_text(text, encoding="utf-8")
    program = changed.with_suffix("")
    subprocess.run([compiler, "-std=c++11", "-O2", str(changed), "-o", str(program), f"-I{ROOT}/include",
                    f"-L{testbed.build}/lib/cxx", "-linfinity", "-libverbs", "-lrdmacm"], check=True)
    return str(program)


def main():
    parser = option_parser(__doc__)
    parser.add_argument("--protocol", default="roce", choices=("roce", "iwarp"))
    parser.add_argument("--tree", help="of Infinity's sources: runs its examples; else the issue's program")
    parser.add_argument("--but", default="", help="an example that is left out")
    parser.add_argument("--compiler", default="c++")
    options = parser.parse_args()
    tree = options.tree and pathlib.Path(os.environ.get("VERBATIM_INFINITY_TREE", options.tree))
    if tree and not (tree / "src/examples").is_dir():
        print("skipped: no tree of Infinity's sources; VERBATIM_INFINITY_TREE=FOLDER names one")
        return SKIPPED
    with Testbed(options) as testbed:
        port = testbed.free_port()
        variables = {"VERBATIM_PROTOCOL": options.protocol, "SERVER_IP": testbed.address("a"), "PORT_NUMBER": str(port),
                     "LD_LIBRARY_PATH": f"{testbed.build}/lib/cxx"}
        for node in ("a", "b"):
            testbed.set_variables(node, **variables)
        if not tree:
            run(testbed, [f"{testbed.build}/bin/issue_server"], [f"{testbed.build}/bin/issue_program"], port)
            return 0
        examples = [source for source in sorted((tree / "src/examples").glob("*.cpp")) if source.stem != options.but]
        if not examples:
            sys.exit(f"{tree}/src/examples has no examples")
        for source in examples:
            program = compile_example(testbed, source, port, options.compiler)
            run(testbed, [program, "-s"], [program], port)
    return 0


if __name__ == "__main__":
    sys.exit(main())
