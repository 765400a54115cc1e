#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/net/address.h"

namespace verbatim::ulp::target {

/// "64M", "1g", "4096": bytes, with K, M, G or T for powers of 1,024. EINVAL.
Result<std::uint64_t> parse_bytes(const std::string& text);
/// "a,b,c": what stands between the commas, without empty words.
std::vector<std::string> split(const std::string& text);
/// An address, with a port behind a colon if the address has none of its own ("10.0.0.1:4420",
/// "[fe80::1]:4420"), else `port`. EINVAL.
Result<SocketAddress> parse_place(const std::string& text, std::uint16_t port);

}  // namespace verbatim::ulp::target
