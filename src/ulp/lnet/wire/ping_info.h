#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "ulp/lnet/wire/nid.h"

/// What a node says of itself: the answer to a GET of portal 0 with this number.
namespace verbatim::ulp::lnet {

inline constexpr std::uint32_t kReservedPortal = 0;
inline constexpr std::uint64_t kPingBits = std::uint64_t{1} << 63;
inline constexpr std::uint32_t kPingBytesMax = 3960;

/// Bits of `features`.
inline constexpr std::uint32_t kBase = 1, kHasStatus = 2, kRoutesNothing = 4;

struct PingInfo {
  struct End {
    Nid nid;
    bool is_up = true;
    friend bool operator==(const End&, const End&) = default;
  };
  std::uint32_t features = kBase | kHasStatus;
  std::uint32_t pid = 12345;
  std::vector<End> ends;  // The first is 0@lo.
  friend bool operator==(const PingInfo&, const PingInfo&) = default;
};
/// None: too short, or no such answer. Ends that were cut off are left out.
std::optional<PingInfo> decode_ping_info(ByteSpan bytes);
std::vector<std::byte> encode(const PingInfo& info);

}  // namespace verbatim::ulp::lnet
