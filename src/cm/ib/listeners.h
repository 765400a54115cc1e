#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/net/address.h"
#include "cm/messages.h"

namespace verbatim::cm {

/// The requests that a listener accepts.
struct ListenAt {
  ServiceId service{};
  /// Bits of the service id that must match (AF_IB's `sib_sid_mask`).
  std::uint64_t service_mask = ~std::uint64_t{0};
  /// Empty: requests without the RDMA IP header (AF_IB). 0.0.0.0 or [::]: any address of that
  /// family. Else: requests to this address. The port is ignored, because the service id contains
  /// it.
  SocketAddress address;
  /// With [::]: also IPv4 requests that no IPv4 listener accepts (no RDMA_OPTION_ID_AFONLY).
  bool both_families = false;
  /// With an empty address: the GID that the request must name; zero: any.
  Gid gid{};
  /// Datagram services are requested by SIDR_REQ, the others by REQ.
  bool datagram = false;
  /// Number of requests that may wait until the user takes (`note_taken`) or answers them.
  std::size_t backlog = 1024;
};

/// The service that a request asks for.
struct Wanted {
  ServiceId service{};
  bool datagram = false;
  SocketAddress address;  // From the RDMA IP header; empty if there is none.
  Gid gid{};
};

/// The listeners of one program. At most one accepts a request: an exact address before a wildcard,
/// a wildcard of the request's family before one of both families.
class Listeners {
 public:
  static constexpr std::size_t kMax = 65'536;

  /// EADDRINUSE if one with the same service, kind and address exists; ENOMEM beyond `kMax`.
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
