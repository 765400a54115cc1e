#include "cli/fabric/status.h"

#include <cerrno>
#include <string_view>

#include "fabric/protocol/channel.h"
#include "fabric/protocol/fabric_folder.h"

namespace verbatim::cli {

namespace protocol = fabric::protocol;

Result<nlohmann::ordered_json> fabric_status(const std::string& name) {
  const auto folder = protocol::FabricFolder::of(name);
  if (!folder) return std::unexpected(folder.error());
  const auto connection = folder->connect();
  if (!connection) return std::unexpected(connection.error());
  UniqueFd memfd;
  const auto status =
      protocol::ask<protocol::Status>(connection->get(), protocol::StatusRequest{}, &memfd);
  if (!status) return std::unexpected(status.error());
  const auto bytes = protocol::read_memfd(memfd.get(), status->size);
  if (!bytes) return std::unexpected(bytes.error());
  const std::string_view text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
  auto json = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return refuse(EPROTO, "the fabric's daemon answers nonsense");
  return json;
}

}  // namespace verbatim::cli
