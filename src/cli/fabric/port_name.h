#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"

namespace verbatim::cli {

/// A port of a fabric as users write it.
struct PortName {
  std::string node;
  std::uint8_t port = 0;
};

/// Parses "S1/3"; a node's name may have slashes. EINVAL with a text for users.
Result<PortName> parse_port_name(const std::string& text);

}  // namespace verbatim::cli
