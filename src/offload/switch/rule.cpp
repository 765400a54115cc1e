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

bool is_option(const TunnelOption& wanted, ByteSpan option) {
  if (option.size() < wanted.size) return false;
  for (std::size_t i = 0; i < wanted.size; ++i) {
    const auto differs = std::to_integer<unsigned>(option[i]) ^ wanted.value[i];
    if ((differs & wanted.mask[i]) != 0) return false;
  }
  return true;
}

bool has_option(const TunnelOption& wanted, ByteSpan options) {
  constexpr unsigned kLength = 0x1f;  // Of the data, in units of four bytes.
  while (options.size() >= TunnelOption::kHeaderBytes) {
    const std::size_t bytes = (1u + (std::to_integer<unsigned>(options[3]) & kLength)) * 4u;
    if (options.size() < bytes) return false;
    if (is_option(wanted, options.first(bytes))) return true;
    options = options.subspan(bytes);
  }
  return false;
}

}  // namespace

bool MoreMatch::accepts(const Key& key, const InTunnel* in_tunnel) const {
  const auto is_in_range = [&](const Range& range) {
    if (range.is_inner && in_tunnel == nullptr) return false;
    const Key& of = range.is_inner ? in_tunnel->key.inner : key;
    return is_in(range, reinterpret_cast<const std::uint8_t*>(&of) + range.at);
  };
  const auto is_there = [&](const TunnelOption& option) {
    return in_tunnel != nullptr && has_option(option, in_tunnel->options);
  };
  return std::ranges::all_of(ranges, is_in_range) && std::ranges::all_of(options, is_there);
}

}  // namespace verbatim::offload
