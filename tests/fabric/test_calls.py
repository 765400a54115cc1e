#!/usr/bin/env python3
"""Runs umad_calls on a host of a fabric, and libibumad without one."""

import os
import subprocess
import sys

from fabricbed import TRIANGLE, FabricBed

from testbed import Failure, option_parser


def without_a_host_there_is_no_device(bed):
    """As on a machine without a card."""
    program = "import ctypes; library = ctypes.CDLL('libibumad.so.3'); pair = ctypes.create_string_buffer(48); " \
              "print(library.umad_get_cas_names(None, 0), library.umad_open_port(None, 0), " \
              "library.umad_get_smi_gsi_pairs(pair, 1), library.umad_get_smi_gsi_pair_by_ca_name(None, 0, pair, 1))"
    environment = bed.environment() | {"LD_LIBRARY_PATH": f"{bed.build}/lib"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, text=True, check=False,
                          capture_output=True, timeout=60)
    if done.stdout.split() != ["0", "-19", "0", "-19"] or "there is no InfiniBand device" not in done.stderr:
        raise Failure(f"without a host: {done.stdout} {done.stderr}")


def main():
    options = option_parser(__doc__).parse_args()
    with FabricBed(options) as bed:
        without_a_host_there_is_no_device(bed)
        bed.up(TRIANGLE)
        print(bed.run("H1", os.path.join(bed.build, "bin", "umad_calls")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
