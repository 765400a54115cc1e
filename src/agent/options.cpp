#include <cstdlib>
#include <ranges>
#include <string_view>

#include "agent/client.h"
#include "agent/runtime_folder.h"

namespace verbatim::agent {

Result<std::vector<SocketAddress>> parse_addresses(std::string_view list) {
  std::vector<SocketAddress> addresses;
  for (const auto part : std::views::split(list, ',')) {
    const auto address = SocketAddress::parse(std::string_view(part), kRocePort);
    if (!address) return std::unexpected(address.error());
    addresses.push_back(*address);
  }
  if (addresses.size() > kAddressesMax) {
    return refuse(EINVAL, fmt::format("{} addresses, but a node has at most {}", addresses.size(),
                                      kAddressesMax));
  }
  return addresses;
}

Result<AgentOptions> AgentOptions::from_environment() {
  AgentOptions options;
  if (const char* node = std::getenv("VERBATIM_NODE"); node != nullptr && *node != '\0') {
    options.node = node;
  }
  if (auto fitting = check_node_name(options.node); !fitting) {
    return refuse(fitting.error().code, "VERBATIM_NODE: " + fitting.error().text);
  }
  if (const char* list = std::getenv("VERBATIM_ADDRESS")) {
    auto addresses = parse_addresses(list);
    if (!addresses) {
      return refuse(addresses.error().code, "VERBATIM_ADDRESS: " + addresses.error().text);
    }
    options.addresses = std::move(*addresses);
  }
  if (const char* list = std::getenv("VERBATIM_ROCE"); list != nullptr && *list != '\0') {
    auto versions = parse_roce_versions(list);
    if (!versions) {
      return refuse(versions.error().code, "VERBATIM_ROCE: " + versions.error().text);
    }
    options.versions = std::move(*versions);
  }
  if (const char* name = std::getenv("VERBATIM_PROTOCOL"); name != nullptr && *name != '\0') {
    const auto protocol = parse_wire_protocol(name);
    if (!protocol) {
      return refuse(protocol.error().code, "VERBATIM_PROTOCOL: " + protocol.error().text);
    }
    options.protocol = *protocol;
  }
  // Not from the environment of a program with raised privileges: it names a program to start.
  if (const char* program = secure_getenv("VERBATIMD")) options.agent_program = program;
  return options;
}

}  // namespace verbatim::agent
