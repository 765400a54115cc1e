#include "cli/nic/function.h"

#include <cerrno>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "config/node_config.h"
#include "service/control.h"

namespace verbatim::cli::nic {

Result<std::string> place_of(const std::string& function) {
  std::string place = function;
  if (!function.starts_with('/')) {
    const std::size_t slash = function.find('/');
    const bool has_card = slash != function.npos;
    const std::string card = has_card ? function.substr(0, slash) : "default";
    const auto told = service::ask({.kind = "nic", .name = card}, {{"ask", "status"}});
    if (!told) return refuse(told.error().code, "--function: " + told.error().text);
    place = fmt::format("{}/{}", told->at("socket").get<std::string>(),
                        has_card ? function.substr(slash + 1) : function);
  }
  config::NodeConfig checked;
  if (auto fits = config::apply("function", place, checked); !fits) {
    return std::unexpected(fits.error());
  }
  return place;
}

}  // namespace verbatim::cli::nic
