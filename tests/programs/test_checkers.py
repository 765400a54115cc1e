#!/usr/bin/env python3
"""Programs that are checked while they run: AddressSanitizer of GCC, and valgrind's memcheck."""

import os
import subprocess
import sys

from testbed import SKIPPED, Failure, Testbed, are_installed, option_parser, wait_until

SECONDS_MAX = 90
FOUND = "heap-use-after-free"

# It opens the device; with an argument, it then reads memory that it has freed.
SOURCE = r"""
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef OWN_OPTIONS
const char* __asan_default_options(void) { return "detect_leaks=0"; }
#endif
int main(int count, char** words) {
  struct ibv_device** list = ibv_get_device_list(NULL);
  struct ibv_context* context = list && list[0] ? ibv_open_device(list[0]) : NULL;
  volatile char* bytes = malloc(16);
  if (!context) return 3;
  printf("opened %s\n", ibv_get_device_name(list[0]));
  fflush(stdout);
  if (count > 1) free((void*)bytes);
  bytes[0] = (char)(bytes[1] + count);
  if (count == 1) free((void*)bytes);
  (void)words;
  ibv_free_device_list(list);
  return ibv_close_device(context);
}
"""


def build(folder, name, *options):
    program = f"{folder}/{name}"
    with open(f"{program}.c", "w", encoding="ascii") as source:
        source.write(SOURCE)
    subprocess.run(["gcc", "-g", "-fsanitize=address", *options, f"{program}.c", "-libverbs", "-o", program],
                   check=True)
    return program


def check_sanitizer(testbed):
    """Started by `verbatim run`, by a script, from PATH: it runs, and a fault in it is found."""
    plain = build(testbed.folder, "plain")
    own = build(testbed.folder, "own", "-DOWN_OPTIONS")
    script = f"{testbed.folder}/script"
    with open(script, "w", encoding="ascii") as text:
        text.write(f"#!/bin/sh\n{plain} \"$@\"\n")
    os.chmod(script, 0o755)
    for program in (plain, own, script):
        testbed.expect_output("a", [program], "opened verbatim0")
        faulty = testbed.start("a", [program, "fault"])
        if faulty.wait(SECONDS_MAX) == 0 or FOUND not in faulty.output():
            raise Failure(f"{program}: {FOUND} was not found")
    print("passed: AddressSanitizer", flush=True)


def check_valgrind(testbed):
    """A ping-pong of which both ends, or one, run under valgrind, takes the wire; memcheck reports nothing. Connections
    of rdma_cm have time-outs that a program under valgrind keeps on a busy machine."""
    valgrind = ["valgrind", "-q", "--error-exitcode=9"]
    for server_checked, client_checked in ((True, True), (False, True), (True, False)):
        rping = ["rping", "-C", "10", "-S", "1024", "-a", testbed.address("a"), "-p", str(testbed.free_port())]
        server = testbed.start("a", [*(valgrind if server_checked else []), *rping, "-s"])
        wait_until(lambda: any(bound["listens"] for bound in testbed.bound_ports("a")), SECONDS_MAX, "rping to listen")
        testbed.start("b", [*(valgrind if client_checked else []), *rping, "-c"]).expect_success(SECONDS_MAX)
        server.expect_success(SECONDS_MAX)
    print("passed: valgrind", flush=True)


def main():
    options = option_parser(__doc__).parse_args()
    if options.preload or not are_installed("gcc", "rping", "valgrind"):
        sys.exit(SKIPPED)
    with Testbed(options) as testbed:
        check_sanitizer(testbed)
    with Testbed(options) as testbed:
        check_valgrind(testbed)


if __name__ == "__main__":
    main()
