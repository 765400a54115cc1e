#pragma once

#include "dropin/rdmacm/objects.h"

/// Socket addresses of programs (AF_INET, AF_INET6, AF_IB) and ours.
namespace verbatim::rdmacm {

/// Bytes of an address by its family; 0 for one that is not known, or null.
socklen_t length_of(const sockaddr* address);

/// What a program names. AF_IB: the GID as an IP address (RoCE's are), and a service.
struct Name {
  SocketAddress address;
  bool is_af_ib = false;
  connect::ServiceId service{};
  std::uint64_t service_mask = ~std::uint64_t{0};
};
/// EINVAL for another family.
Result<Name> name_from(const sockaddr* address);

/// Writes `address` as the id's family has it.
void store(const SocketAddress& address, const Id& id, sockaddr_storage& to);

/// Fills in what programs read of the id's addresses and route.
void show_addresses(Id& id);
/// The route's path record; EALREADY does not happen: an older one is replaced.
Result<void> show_path(Id& id);

}  // namespace verbatim::rdmacm
