#include "cli/nfs/nfs_text.h"

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

std::string nfs_text(const nlohmann::json& status) {
  const nlohmann::json none = nlohmann::json::array();
  const bool is_client = word(status, "kind") == "nfs-client";
  std::string text = fmt::format(
      "nfs {} {} listens at {}, {} at {}\n", is_client ? "client" : "serve", word(status, "name"),
      word(status, "listens"), is_client ? "server over RDMA" : "server", word(status, "to"));
  if (!status.value("is_apart", true))
    text += fmt::format("  every user of this machine reads and writes the folder through {}\n",
                        word(status, "to"));
  for (const auto& one : status.value("connections", none)) {
    text += fmt::format(
        "  {}: {} calls, {} replies, {} refused, {} bytes read, {} bytes written by RDMA\n",
        word(one, "peer"), number(one, "calls"), number(one, "replies"), number(one, "refused"),
        number(one, "read_bytes"), number(one, "written_bytes"));
  }
  for (const auto& incident : status.value("incidents", none))
    text += fmt::format("  {}: {}\n", word(incident, "peer"), word(incident, "words"));
  return text;
}

}  // namespace verbatim::cli
