#include "cli/fabric/host.h"

#include <cerrno>
#include <cstdlib>

#include "fabric/protocol/channel.h"
#include "fabric/protocol/fabric_folder.h"

namespace verbatim::cli {
namespace {

namespace protocol = fabric::protocol;

std::optional<std::string> choose(const std::optional<std::string>& option, const char* variable) {
  if (option) return option;
  const char* const value = getenv(variable);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

}  // namespace

void add_host_options(CLI::App& command, HostChoice& choice) {
  command.add_option("--fabric", choice.fabric, "The fabric of --host; default: default")
      ->type_name("NAME");
  command.add_option("--host", choice.host, "A host of a fabric, instead of a node")
      ->type_name("NAME");
}

Result<Variables> host_variables(const HostChoice& choice) {
  const auto host = choose(choice.host, "VERBATIM_HOST");
  if (!host && choice.fabric) {
    return refuse(EINVAL, "--fabric needs --host: on which host of it?");
  }
  if (!host) return Variables{};
  const std::string name =
      choose(choice.fabric, "VERBATIM_FABRIC").value_or(protocol::kDefaultFabric);
  const auto folder = protocol::FabricFolder::of(name);
  if (!folder) return std::unexpected(folder.error());
  const auto connection = folder->connect();
  if (!connection) return std::unexpected(connection.error());
  protocol::ViewRequest request;
  protocol::put_text(request.host, *host);
  const auto facts = protocol::ask<protocol::HostDescription>(connection->get(), request);
  if (!facts) return std::unexpected(facts.error());
  return Variables{{"VERBATIM_FABRIC", name},
                   {"VERBATIM_HOST", *host},
                   {"VERBATIM_VIEW", folder->view(facts->guid)}};
}

}  // namespace verbatim::cli
