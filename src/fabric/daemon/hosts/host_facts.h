#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "fabric/daemon/port_agents.h"
#include "fabric/management/management_net.h"
#include "fabric/protocol/messages.h"

/// What programs of a host are told about its device, as Linux would tell them.
namespace verbatim::fabric {

/// The device of every host.
inline constexpr std::string_view kDeviceName = "verbatim0";

/// The node of an adapter by its name, or by its GUID ("0x..."). ENODEV: there is none, or more
/// than one has this name.
Result<std::uint32_t> find_host(const Topology& topology, std::string_view name);
/// The same for a node of any kind.
Result<std::uint32_t> find_node(const Topology& topology, std::string_view name);

protocol::HostDescription describe(const ManagementNet& net, std::uint32_t host);
PortIdentifiers identifiers(const ManagementNet& net, PortPlace port);

struct HostFile {
  std::string path;     // Below /sys/class/infiniband/DEVICE: "ports/1/lid".
  std::string content;  // Without the line's end.
  friend bool operator==(const HostFile&, const HostFile&) = default;
};
std::vector<HostFile> files_of(const protocol::HostDescription& host);

}  // namespace verbatim::fabric
