#include "cli/fabric/port_name.h"

#include <cerrno>
#include <charconv>

#include <fmt/format.h>

namespace verbatim::cli {

Result<PortName> parse_port_name(const std::string& text) {
  const std::size_t slash = text.rfind('/');
  const char* const end = text.data() + text.size();
  PortName name;
  if (slash != std::string::npos && slash != 0) {
    const auto [rest, error] = std::from_chars(text.data() + slash + 1, end, name.port);
    if (error == std::errc{} && rest == end) {
      name.node = text.substr(0, slash);
      return name;
    }
  }
  return refuse(EINVAL, fmt::format("'{}' is no port such as L1/3", text));
}

}  // namespace verbatim::cli
