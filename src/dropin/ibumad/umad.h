#pragma once

/// The C interface that this folder implements: libibumad's own header, and what newer versions
/// declare beside it. Everything declared here is visible outside the library; all else is hidden.
#pragma GCC visibility push(default)

#include <infiniband/umad.h>
#include <infiniband/umad_str.h>
#include <infiniband/umad_types.h>

extern "C" {

// rdma-core 57: the port of the device that manages the subnet, where it has one of its own.
int umad_open_smi_port(const char* ca_name, int portnum);

}  // extern "C"

#pragma GCC visibility pop
