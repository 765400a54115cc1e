#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "adapter/queues/receive_queue.h"
#include "base/net/path.h"
#include "base/types.h"
#include "port/address_vector.h"
#include "region/region_table.h"
#include "transport/work.h"

/// Requests as programs post them.
namespace verbatim::adapter {

/// Where a UD request goes: a resolved address handle.
struct Destination {
  Path path;
  Gid gid;
  port::AddressVector vector;
};

/// Flags of SendWork, with the values of `enum ibv_send_flags`; other flags are ignored.
using PostFlags = std::uint32_t;
inline constexpr PostFlags kPostSignaled = 2;
inline constexpr PostFlags kPostInline = 8;  // The data is copied now; segments need no key.
// Raw packets: the checksums of IP and TCP or UDP.
inline constexpr PostFlags kPostFillChecksums = 16;

/// One send request as the program posts it.
struct SendWork {
  std::uint64_t wr_id = 0;
  transport::SendRequest request;
  std::span<const Segment> segments;
  PostFlags flags = 0;
  std::optional<region::WindowBinding> binding;  // For Operation::bind_window.
  const Destination* destination = nullptr;      // UD: the address handle.
  Qpn remote_qpn;                                // UD.
  QKey remote_qkey{};                            // UD.

  bool signaled() const { return (flags & kPostSignaled) != 0; }
  bool inlined() const { return (flags & kPostInline) != 0; }
};

}  // namespace verbatim::adapter
