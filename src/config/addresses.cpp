#include "config/addresses.h"

#include <ranges>

#include "config/words.h"

namespace verbatim::config {

Result<std::vector<SocketAddress>> parse_addresses(std::string_view list) {
  std::vector<SocketAddress> addresses;
  for (const auto part : std::views::split(list, ',')) {
    const auto address = SocketAddress::parse(trimmed(std::string_view(part)), kRocePort);
    if (!address) return std::unexpected(address.error());
    addresses.push_back(*address);
  }
  if (addresses.size() > kAddressesMax) {
    return refuse(EINVAL, fmt::format("{} addresses, but a node has at most {}", addresses.size(),
                                      kAddressesMax));
  }
  return addresses;
}

std::string text_of(std::span<const SocketAddress> addresses) {
  std::string list;
  for (const auto& address : addresses) {
    if (!list.empty()) list += ',';
    list += address.ip_text();
  }
  return list;
}

}  // namespace verbatim::config
