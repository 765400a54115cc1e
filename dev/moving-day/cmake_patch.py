#!/usr/bin/env python3
"""cmake_patch.py ROOT: after move.py."""
import pathlib, re, sys
root = pathlib.Path(sys.argv[1]); src = root / "src"
def edit(name, *pairs):
    path = root / name; text = path.read_text()
    for old, new in pairs:
        if old not in text: print("NOT FOUND", name, old); continue
        text = text.replace(old, new)
    path.write_text(text)
edit("CMakeLists.txt",
 ("""# One folder of the house is one library: every .cpp in it but the tests; the tests are one program of
# their own. `DEPENDS` names the folders below it (design.md's table; tests/tree/check_includes.py enforces it).
""", """# One folder of the house with its rooms is one library: every .cpp in it but the tests; the tests are one program
# of their own. `DEPENDS` names the folders below it (tests/tree/includes.py has the table), `ALSO` others that are part of it.
"""),
 ('cmake_parse_arguments(ARG "" "" "DEPENDS;LIBRARIES;TEST_DEPENDS" ${ARGN})\n  file(GLOB sources CONFIGURE_DEPENDS *.cpp)',
  'cmake_parse_arguments(ARG "" "" "ALSO;DEPENDS;LIBRARIES;TEST_DEPENDS" ${ARGN})\n  file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cpp)\n'
  '  foreach(folder ${ARG_ALSO})\n    file(GLOB_RECURSE also CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${folder}/*.cpp)\n    list(APPEND sources ${also})\n  endforeach()'))
edit("src/adapter/CMakeLists.txt", ("verbatim_folder(adapter DEPENDS", "verbatim_folder(adapter ALSO arena port\n                DEPENDS"))
for name in ("src/agent/CMakeLists.txt", *[str(p.relative_to(root)) for d in ("tests", "bench", "fuzz", "sim") for p in (root / d).rglob("CMakeLists.txt")]):
    path = root / name; text = path.read_text(); new = text.replace("verbatim_mover", "verbatim_link")
    if new != text: path.write_text(new)
# agent: lists become rooms.
text = (src / "agent/CMakeLists.txt").read_text()
text = re.sub(r"add_library\(verbatim_agent_client STATIC [^)]*\)",
 "file(GLOB client_sources CONFIGURE_DEPENDS client/*.cpp protocol/*.cpp)\nlist(FILTER client_sources EXCLUDE REGEX \"_test\\\\.cpp$\")\nadd_library(verbatim_agent_client STATIC ${client_sources})", text)
text = re.sub(r"add_library\(verbatim_agent_server STATIC [^)]*\)",
 "file(GLOB server_sources CONFIGURE_DEPENDS identity/*.cpp management/*.cpp server/*.cpp sockets/*.cpp)\nlist(FILTER server_sources EXCLUDE REGEX \"_test\\\\.cpp$\")\nadd_library(verbatim_agent_server STATIC ${server_sources})", text)
text = text.replace("file(GLOB agent_tests CONFIGURE_DEPENDS *_test.cpp)", "file(GLOB_RECURSE agent_tests CONFIGURE_DEPENDS *_test.cpp)")
(src / "agent/CMakeLists.txt").write_text(text)
edit("src/dropin/ibverbs/CMakeLists.txt", ("file(GLOB sources CONFIGURE_DEPENDS *.cpp)", "file(GLOB_RECURSE sources CONFIGURE_DEPENDS *.cpp)"))
edit("src/dropin/rdmacm/CMakeLists.txt", ("file(GLOB sources CONFIGURE_DEPENDS *.cpp)", "file(GLOB sources CONFIGURE_DEPENDS *.cpp ${CMAKE_SOURCE_DIR}/src/ulp/rsocket/*.cpp)"))
edit("src/base/CMakeLists.txt")
