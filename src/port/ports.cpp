#include "port/ports.h"

#include <cerrno>

#include <fmt/format.h>

namespace verbatim::port {

Result<void> Ports::check(unsigned number) const {
  if (number >= 1 && number <= size()) return {};
  return refuse(EINVAL, fmt::format("port {} does not exist: the device has port{}", number,
                                    size() == 1 ? " 1" : fmt::format("s 1 to {}", size())));
}

}  // namespace verbatim::port
