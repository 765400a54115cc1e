#include "cli/target/target_text.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace verbatim::cli {
namespace {

std::string word(const nlohmann::json& from, const char* key) {
  return from.value(key, std::string());
}

}  // namespace

std::string target_text(const nlohmann::json& status) {
  const nlohmann::json none = nlohmann::json::array();
  const std::string places = word(status, "listens");
  std::string text = fmt::format("target {} listens {}\n", word(status, "name"),
                                 places.empty() ? "nowhere" : "at " + places);
  for (const auto& subsystem : status.value("subsystems", none)) {
    text += fmt::format("  {}{}\n", word(subsystem, "nqn"),
                        subsystem.value("any_host", false) ? ", for any host" : "");
    for (const auto& space : subsystem.value("namespaces", none)) {
      text += fmt::format("    namespace {}: {} bytes, blocks of {}\n", space.value("id", 0),
                          space.value("bytes", std::uint64_t{0}), space.value("block_bytes", 0));
    }
  }
  for (const auto& host : status.value("hosts", none)) {
    text += fmt::format("  host {}: controller {} of {}, {} queues\n", word(host, "host"),
                        host.value("controller", 0), word(host, "nqn"), host.value("queues", 0));
  }
  const nlohmann::json iscsi = status.value("iscsi", nlohmann::json::object());
  for (const auto& target : iscsi.value("targets", none)) {
    text += fmt::format("  {}{}\n", word(target, "name"),
                        target.value("any_initiator", false) ? ", for any initiator" : "");
  }
  for (const auto& initiator : iscsi.value("initiators", none)) {
    text += fmt::format("  initiator {}: session {} of {}\n", word(initiator, "initiator"),
                        initiator.value("session", 0), word(initiator, "target"));
  }
  const nlohmann::json srp = status.value("srp", nlohmann::json::object());
  for (const auto& port : srp.value("ports", none)) {
    text += fmt::format("  port {}{}\n", word(port, "port"),
                        port.value("any_initiator", false) ? ", for any initiator" : "");
  }
  for (const auto& initiator : srp.value("initiators", none)) {
    text += fmt::format("  initiator {}: {} channels to {}\n", word(initiator, "initiator"),
                        initiator.value("channels", 0), word(initiator, "port"));
  }
  for (const auto& incident : status.value("incidents", none))
    text += fmt::format("  {}: {}\n", word(incident, "peer"), word(incident, "words"));
  return text;
}

}  // namespace verbatim::cli
