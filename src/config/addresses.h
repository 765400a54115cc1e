#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/net/address.h"

namespace verbatim::config {

/// Number of addresses that a node can have.
inline constexpr std::size_t kAddressesMax = 15;

/// Parses a comma-separated list of IP addresses, ignoring spaces around them; each gets port 4791.
/// EINVAL, ENODEV.
Result<std::vector<SocketAddress>> parse_addresses(std::string_view list);
/// Returns the IP addresses, separated by commas.
std::string text_of(std::span<const SocketAddress> addresses);

}  // namespace verbatim::config
