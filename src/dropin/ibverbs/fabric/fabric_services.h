#pragma once

#include "dropin/ibverbs/services.h"

/// The services for librdmacm.so.1 that only a host of a fabric has: see services.h.
namespace verbatim::dropin {

int find_gid(const sockaddr* address, ibv_gid* gid);
int find_interface(const sockaddr* source, const sockaddr* destination, VerbatimInterface* found);
int find_path(const VerbatimPathQuery* query, VerbatimOnPath* on_path, std::uint64_t tag);
void find_group(std::uint8_t port, const ibv_gid* gid, ibv_sa_mcmember_rec* group);
int join_group(std::uint32_t membership, std::uint8_t port, const ibv_sa_mcmember_rec* wanted,
               bool has_limits, VerbatimOnGroup* on_group);
void leave_group(std::uint32_t membership);

}  // namespace verbatim::dropin
