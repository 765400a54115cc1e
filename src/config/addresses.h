#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/net/address.h"

namespace verbatim::config {

/// A node has at most so many addresses.
inline constexpr std::size_t kAddressesMax = 15;

/// A comma-separated list of IP addresses, each with port 4791; spaces around them are ignored.
/// EINVAL, ENODEV.
Result<std::vector<SocketAddress>> parse_addresses(std::string_view list);
/// Their IP addresses, separated by commas.
std::string text_of(const std::vector<SocketAddress>& addresses);

}  // namespace verbatim::config
