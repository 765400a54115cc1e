#include "dropin/ibumad/host.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <span>

#include <fmt/format.h>

#include "fabric/protocol/fabric_folder.h"

namespace verbatim::ibumad {
namespace {

// Of PortInfo (IBA 14.2.5.6).
constexpr std::uint8_t kActive = 4;
constexpr std::uint8_t kLinkUp = 5;
constexpr std::uint8_t kDisabled = 3;

const char* variable(const char* name) {
  const char* const value = getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

}  // namespace

bool is_on_host() { return variable("VERBATIM_HOST") != nullptr; }

Result<UniqueFd> connect_to_fabric() {
  if (!is_on_host()) {
    return refuse(ENODEV,
                  "there is no InfiniBand device: 'verbatim run --fabric NAME --host HOST' "
                  "runs a program on a host of a fabric");
  }
  const char* const name = variable("VERBATIM_FABRIC");
  const auto folder = protocol::FabricFolder::of(name != nullptr ? name : protocol::kDefaultFabric);
  if (!folder) return std::unexpected(folder.error());
  auto connection = folder->connect();
  if (!connection) return refuse(ENODEV, connection.error().text);
  return connection;
}

protocol::HostName host_name() {
  protocol::HostName name;
  const char* const host = variable("VERBATIM_HOST");
  protocol::put_text(name, host != nullptr ? host : "");
  return name;
}

Result<protocol::HostDescription> describe_host() {
  if (!is_on_host()) {
    if (const auto node = describe_node()) return *node;
  }
  const auto connection = connect_to_fabric();
  if (!connection) return std::unexpected(connection.error());
  return protocol::ask<protocol::HostDescription>(connection->get(),
                                                  protocol::HostRequest{.host = host_name()});
}

Result<void> check_device(const protocol::HostDescription& host, const char* device) {
  if (device == nullptr || protocol::text_of(host.device) == device) return {};
  return refuse(ENODEV, fmt::format("there is no device {}: the host has {}", device,
                                    protocol::text_of(host.device)));
}

Result<Port> choose_port(const protocol::HostDescription& host, int number) {
  const auto ports =
      std::span(host.ports).first(std::min<std::size_t>(host.port_count, host.ports.size()));
  if (number < 0 || number > static_cast<int>(ports.size())) {
    return refuse(ENODEV, fmt::format("there is no port {}", number));
  }
  auto found = ports.begin() + std::max(number - 1, 0);
  if (number == 0) {
    using Facts = protocol::PortDescription;
    found = std::ranges::find(ports, kActive, &Facts::state);
    if (found == ports.end()) found = std::ranges::find(ports, kLinkUp, &Facts::physical_state);
    if (found == ports.end()) {
      found = std::ranges::find_if(
          ports, [](const Facts& port) { return port.physical_state != kDisabled; });
    }
    if (found == ports.end()) return refuse(ENODEV, "all ports are disabled");
  }
  return Port{static_cast<unsigned>(found - ports.begin()) + 1, *found};
}

}  // namespace verbatim::ibumad
