#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

/// The C interface of this folder: librdmacm's own header, and additions of newer versions.
/// Everything declared here is exported; all else is hidden.
#pragma GCC visibility push(default)

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

extern "C" {

// rdma-core 65.
int rdma_write_cm_event(rdma_cm_id* id, rdma_cm_event_type event, int status, std::uint64_t arg);
int rdma_resolve_addrinfo(rdma_cm_id* id, const char* node, const char* service,
                          const rdma_addrinfo* hints);
int rdma_query_addrinfo(rdma_cm_id* id, rdma_addrinfo** info);

}  // extern "C"

#pragma GCC visibility pop

namespace verbatim::rdmacm {

/// Events that rdma-core 65 added, beyond the enumeration in the installed header.
inline constexpr auto kAddrinfoResolved = std::bit_cast<rdma_cm_event_type>(16u);
inline constexpr auto kAddrinfoError = std::bit_cast<rdma_cm_event_type>(17u);
inline constexpr auto kUserEvent = std::bit_cast<rdma_cm_event_type>(18u);

/// SDP's port space, which Linux had (RDMA_PS_SDP): our own sockets use it. Private data has no
/// header before the user's, which is a Hello. Not over iWARP.
inline constexpr auto kSdpSpace = static_cast<rdma_port_space>(0x0001);

}  // namespace verbatim::rdmacm
