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

/// What a program posts.
namespace verbatim::adapter {

/// Where a UD request goes: a resolved address handle.
struct Destination {
  Path path;
  Gid gid;
  port::AddressVector vector;
};

/// Of SendWork, with the values of `enum ibv_send_flags`; others are left alone.
using PostFlags = std::uint32_t;
inline constexpr PostFlags kPostSignaled = 2;
inline constexpr PostFlags kPostInline = 8;  // The bytes are copied now; segments need no key.
inline constexpr PostFlags kPostFillChecksums = 16;  // Raw packets: of IP and TCP or UDP.

/// One send request as the program posts it.
struct SendWork {
  std::uint64_t wr_id = 0;
  transport::SendRequest request;
  std::span<const Segment> segments;
  PostFlags flags = 0;
  std::optional<region::WindowBinding> binding;  // Of Operation::bind_window.
  const Destination* destination = nullptr;      // UD: the address handle.
  Qpn remote_qpn;                                // UD.
  QKey remote_qkey{};                            // UD.

  bool signaled() const { return (flags & kPostSignaled) != 0; }
  bool inlined() const { return (flags & kPostInline) != 0; }
};

}  // namespace verbatim::adapter
