#include "config/wire_protocol.h"

#include <cerrno>

#include <fmt/format.h>

namespace verbatim::config {

Result<WireProtocol> parse_wire_protocol(std::string_view name) {
  for (const WireProtocol protocol : {WireProtocol::roce, WireProtocol::iwarp}) {
    if (name == name_of(protocol)) return protocol;
  }
  return refuse(EINVAL, fmt::format("'{}' is no protocol: roce and iwarp are", name));
}

std::string_view name_of(WireProtocol protocol) {
  switch (protocol) {
    case WireProtocol::roce:
      return "roce";
    case WireProtocol::iwarp:
      return "iwarp";
    case WireProtocol::infiniband:
      return "infiniband";
  }
  return "unknown";
}

}  // namespace verbatim::config
