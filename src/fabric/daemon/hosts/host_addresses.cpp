#include "fabric/daemon/hosts/host_addresses.h"

#include <algorithm>

namespace verbatim::fabric {
namespace {

constexpr std::size_t kHostsMax = 65'534;
constexpr std::uint8_t kFirst = 64;
constexpr std::uint32_t kCount = 128;

std::uint8_t second_byte_of(std::string_view fabric) {
  std::uint32_t hash = 2166136261u;  // FNV-1a: the same in every run.
  for (const char c : fabric) hash = (hash ^ static_cast<std::uint8_t>(c)) * 16777619u;
  return static_cast<std::uint8_t>(kFirst + hash % kCount);
}

}  // namespace

HostAddresses::HostAddresses(std::string_view fabric, const Topology& topology)
    : second_byte_(second_byte_of(fabric)) {
  for (std::uint32_t i = 0; i < topology.nodes.size() && hosts_.size() < kHostsMax; ++i) {
    if (topology.nodes[i].kind == NodeKind::adapter) hosts_.push_back(i);
  }
}

SocketAddress HostAddresses::address_of(std::uint32_t node) const {
  const auto found = std::ranges::lower_bound(hosts_, node);
  if (found == hosts_.end() || *found != node) return {};
  const auto number = static_cast<std::uint32_t>(found - hosts_.begin()) + 1;
  return SocketAddress::ipv4({127, second_byte_, static_cast<std::uint8_t>(number >> 8),
                              static_cast<std::uint8_t>(number & 0xff)});
}

std::optional<std::uint32_t> HostAddresses::node_with(const SocketAddress& address) const {
  const auto bytes = address.ipv4_bytes();
  const std::uint32_t number = std::uint32_t{bytes[2]} << 8 | bytes[3];
  const bool is_ours = bytes[0] == 127 && bytes[1] == second_byte_;
  if (!is_ours || number == 0 || number > hosts_.size()) return std::nullopt;
  return hosts_[number - 1];
}

}  // namespace verbatim::fabric
