#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/net/address.h"
#include "cm/messages.h"

namespace verbatim::cm {

/// Whose requests a listener takes.
struct ListenAt {
  ServiceId service{};
  /// Bits of the service id that must match (AF_IB's `sib_sid_mask`).
  std::uint64_t service_mask = ~std::uint64_t{0};
  /// Empty: requests without the RDMA IP header (AF_IB). 0.0.0.0 or [::]: any of that family.
  /// Else those to this address. The port does not matter: it is part of the service id.
  SocketAddress address;
  /// With [::]: those over IPv4, too, that no IPv4 listener takes (no RDMA_OPTION_ID_AFONLY).
  bool both_families = false;
  /// With an empty address: the GID that must be asked for; zero for any.
  Gid gid{};
  /// Datagram services are asked for by SIDR_REQ, the others by REQ.
  bool datagram = false;
  /// How many requests may wait until the user takes them (`note_taken`) or answers them.
  std::size_t backlog = 1024;
};

/// What a request asks for.
struct Wanted {
  ServiceId service{};
  bool datagram = false;
  SocketAddress address;  // Of the RDMA IP header; empty without one.
  Gid gid{};
};

/// The listeners of one program. At most one answers a request: an address before a wildcard, a
/// wildcard of the request's family before one of both.
class Listeners {
 public:
  static constexpr std::size_t kMax = 65'536;

  /// EADDRINUSE where one with the same service, kind and address exists; ENOMEM beyond `kMax`.
  Result<ListenerId> add(const ListenAt& where);
  void remove(ListenerId id);
  std::optional<ListenerId> find(const Wanted& wanted) const;

 private:
  struct Entry {
    ListenerId id{};
    ListenAt where;
  };
  std::vector<Entry> entries_;
  std::uint32_t last_id_ = 0;
};

}  // namespace verbatim::cm
