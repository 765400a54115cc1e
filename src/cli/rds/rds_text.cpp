#include "cli/rds/rds_text.h"

#include <cstdint>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace verbatim::cli {
namespace {

std::string word(const nlohmann::json& from, const char* key) {
  return from.value(key, std::string());
}

std::uint64_t number(const nlohmann::json& from, const char* key) {
  return from.value(key, std::uint64_t{0});
}

}  // namespace

std::string rds_text(const nlohmann::json& status) {
  const nlohmann::json none = nlohmann::json::array();
  std::string text = fmt::format("RDS broker of {}\n", word(status, "name"));
  for (const auto& peer : status.value("peers", none)) {
    text +=
        fmt::format("  {} with {}: {}, {} sent, {} received", word(peer, "own"), word(peer, "peer"),
                    word(peer, "state"), number(peer, "sent"), number(peer, "received"));
    if (number(peer, "waiting") > 0)
      text += fmt::format(", {} not acknowledged", number(peer, "waiting"));
    if (number(peer, "connected") > 1)
      text += fmt::format(", connected {} times", number(peer, "connected"));
    if (peer.contains("why")) text += fmt::format(" ({})", word(peer, "why"));
    text += "\n";
  }
  for (const auto& socket : status.value("sockets", none)) {
    text +=
        fmt::format("  {} of process {}: {} sent, {} received", word(socket, "own"),
                    number(socket, "process"), number(socket, "sent"), number(socket, "received"));
    if (number(socket, "unread") > 0)
      text += fmt::format(", {} not read", number(socket, "unread"));
    if (socket.value("congested", false)) text += ", congested";
    text += "\n";
  }
  const auto counters = status.value("counters", nlohmann::json::object());
  for (const auto& [name, value] : counters.items()) {
    if (value != 0) text += fmt::format("  {} {}\n", name, value.dump());
  }
  return text;
}

}  // namespace verbatim::cli
