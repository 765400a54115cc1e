#include "cli/fabric/host.h"

#include <cerrno>
#include <cstdlib>

#include <sys/socket.h>

#include "cli/environment.h"
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
  Variables variables{{"VERBATIM_FABRIC", name},
                      {"VERBATIM_HOST", *host},
                      {"VERBATIM_VIEW", folder->view(facts->guid)}};
  // opensm keeps LIDs in files. Its own folders are root's, and those of all fabrics at once.
  for (const char* of_opensm : {"OSM_CACHE_DIR", "OSM_TMP_DIR"}) {
    if (getenv(of_opensm) == nullptr) variables.emplace_back(of_opensm, folder->path());
  }
  return variables;
}

}  // namespace

void add_host_options(CLI::App& command, HostChoice& choice) {
  command.add_option("--fabric", choice.fabric, "The fabric of --host; default: default")
      ->type_name("NAME");
  auto* const host =
      command.add_option("--host", choice.host, "A host of a fabric, instead of a node")
          ->type_name("NAME");
  // A host's node has its name, address, protocol and device from the fabric.
  for (const char* of_a_node : {"--node", "--address", "--protocol", "--roce", "--device"}) {
    host->excludes(command.get_option(of_a_node));
  }
}

std::vector<std::string> end_with_fabric() {
  const auto name = choose(std::nullopt, "VERBATIM_FABRIC");
  if (!name || !choose(std::nullopt, "VERBATIM_HOST")) return {};
  const auto folder = protocol::FabricFolder::of(*name);
  const auto connection = folder ? folder->connect() : std::unexpected(folder.error());
  ucred daemon{};
  socklen_t size = sizeof daemon;
  if (!connection || getsockopt(connection->get(), SOL_SOCKET, SO_PEERCRED, &daemon, &size) != 0)
    return {};
  return {"--ends-with", std::to_string(daemon.pid)};
}

Result<bool> enter_host(const HostChoice& choice) {
  const auto variables = host_variables(choice);
  if (!variables) return std::unexpected(variables.error());
  for (const auto& [name, value] : *variables) setenv(name.c_str(), value.c_str(), 1);
  return !variables->empty();
}

}  // namespace verbatim::cli
