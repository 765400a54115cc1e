#!/usr/bin/env python3
"""Programs and providers of the distribution start on the library, each bound in full."""
import argparse
import os
import platform
import shutil
import subprocess
import sys

PROGRAMS = ["ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_write_lat", "ib_read_lat", "ib_send_lat",
            "ib_atomic_bw", "ib_atomic_lat", "raw_ethernet_bw", "ibv_devices", "ibv_devinfo",
            "ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong",
            "ibv_xsrq_pingpong", "ibv_asyncwatch", "qperf", "rping", "ucmatose", "udaddy", "mckey",
            "rdma_client", "rdma_server", "rdma_xclient", "rdma_xserver", "rstream", "riostream",
            "udpong", "rcopy", "cmtime"]
LOADERS = {"x86_64": "/lib64/ld-linux-x86-64.so.2", "aarch64": "/lib/ld-linux-aarch64.so.1"}
PROVIDERS = ["libmlx5.so.1", "libmlx4.so.1", "libefa.so.1", "librdmacm.so.1"]


def load(command, folder):
    """Returns the loader's output for binding every symbol of a program and its libraries."""
    environment = dict(os.environ, LD_LIBRARY_PATH=folder, LD_BIND_NOW="1",
                       LD_TRACE_LOADED_OBJECTS="1", LD_WARN="1")
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=30)


def problems_of(name, command, folder, library):
    result = load(command, folder)
    said = result.stdout + result.stderr
    complaints = [line for line in said.splitlines()
                  if "undefined symbol" in line or "not found" in line or "not defined" in line]
    if library not in said:
        complaints.append(f"it does not load {library}:\n{said}")
    return [f"{name}: {complaint.strip()}" for complaint in complaints]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--exports")
    options = parser.parse_args()
    folder = os.path.dirname(os.path.realpath(options.library))
    library = os.path.join(folder, "libibverbs.so.1")

    found, tried = [], 0
    for program in PROGRAMS:
        path = shutil.which(program)
        if path:
            tried += 1
            found += problems_of(program, [path], folder, library)
    machine = platform.machine()
    for provider in PROVIDERS:
        path = f"/usr/lib/{machine}-linux-gnu/{provider}"
        if os.path.exists(path):
            tried += 1
            found += problems_of(provider, [LOADERS[machine], path], folder, library)
    print("\n".join(found) or f"{tried} programs and libraries load")
    if tried == 0:
        print("nothing is installed that could be loaded")
        sys.exit(77)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
