#include "cli/fabric/status.h"

#include <cerrno>

#include <nlohmann/json.hpp>

#include "fabric/protocol/channel.h"
#include "fabric/protocol/fabric_folder.h"

namespace verbatim::cli {

namespace protocol = fabric::protocol;

namespace {

/// The text in the memfd with which the daemon answers.
template <typename Request>
Result<std::string> ask_for_text(const std::string& name) {
  const auto connection = connect_to_fabric(name);
  if (!connection) return std::unexpected(connection.error());
  UniqueFd memfd;
  const auto status = protocol::ask<protocol::Status>(connection->get(), Request{}, &memfd);
  if (!status) return std::unexpected(status.error());
  const auto bytes = protocol::read_memfd(memfd.get(), status->size);
  if (!bytes) return std::unexpected(bytes.error());
  return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

}  // namespace

Result<UniqueFd> connect_to_fabric(const std::string& name) {
  const auto folder = protocol::FabricFolder::of(name);
  if (!folder) return std::unexpected(folder.error());
  return folder->connect();
}

Result<nlohmann::ordered_json> fabric_status(const std::string& name) {
  const auto text = ask_for_text<protocol::StatusRequest>(name);
  if (!text) return std::unexpected(text.error());
  auto json = nlohmann::ordered_json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return refuse(EPROTO, "the fabric's daemon answers nonsense");
  return json;
}

Result<std::string> fabric_tables(const std::string& name) {
  return ask_for_text<protocol::TablesRequest>(name);
}

}  // namespace verbatim::cli
