#include "offload/switch/rule.h"

#include <algorithm>
#include <cstring>

namespace verbatim::offload {
namespace {

bool is_in(const Range& range, const std::uint8_t* field) {
  std::array<std::uint8_t, 16> value{};
  for (std::size_t i = 0; i < range.size; ++i) {
    value[i] = static_cast<std::uint8_t>(field[i] & range.mask[i]);
  }
  return std::memcmp(value.data(), range.low.data(), range.size) >= 0 &&
         std::memcmp(value.data(), range.high.data(), range.size) <= 0;
}

}  // namespace

bool MoreMatch::are_in_range(const Key& key, const TunnelWords* in_tunnel) const {
  return std::ranges::all_of(ranges, [&](const Range& range) {
    if (range.is_inner && in_tunnel == nullptr) return false;
    const auto* const of_tunnel = reinterpret_cast<const std::uint8_t*>(in_tunnel);
    const auto* const fields = range.is_inner ? of_tunnel + offsetof(TunnelKey, inner)
                                              : reinterpret_cast<const std::uint8_t*>(&key);
    return is_in(range, fields + range.at);
  });
}

}  // namespace verbatim::offload
