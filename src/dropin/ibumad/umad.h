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

// rdma-core 56 declares them itself.
#ifndef VERBATIM_UMAD_HAS_PAIRS
struct umad_ca_pair {
  char smi_name[UMAD_CA_NAME_LEN];
  uint32_t smi_preferred_port;
  char gsi_name[UMAD_CA_NAME_LEN];
  uint32_t gsi_preferred_port;
};
int umad_get_smi_gsi_pairs(umad_ca_pair cas[], size_t max);
int umad_get_smi_gsi_pair_by_ca_name(const char* devname, uint8_t portnum, umad_ca_pair* ca_pair,
                                     unsigned enforce_smi);
#endif

}  // extern "C"

#pragma GCC visibility pop
