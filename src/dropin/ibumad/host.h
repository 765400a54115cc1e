#pragma once

#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "fabric/protocol/channel.h"

/// The host of a fabric that this process runs on: VERBATIM_HOST, in fabric VERBATIM_FABRIC.
namespace verbatim::ibumad {

namespace protocol = fabric::protocol;

/// ENODEV: the process runs on no host of a fabric, or the fabric does not run.
Result<UniqueFd> connect_to_fabric();
/// Requires `is_on_host`, as all that connects does.
protocol::HostName host_name();
/// Of a process on no host: its node's, if that has a card's device (`describe_node`).
Result<protocol::HostDescription> describe_host();
/// Nothing where the process has no view of a RoCE node.
std::optional<protocol::HostDescription> describe_node();
/// Returns true for a process on a host of a fabric: its ports' links are InfiniBand.
bool is_on_host();

/// The host's one device, and one of its ports. ENODEV: it has another name, or no such port.
/// Port 0 means the first that is Active, else has a link, else is not disabled.
struct Port {
  unsigned number = 0;
  protocol::PortDescription facts;
};
Result<void> check_device(const protocol::HostDescription& host, const char* device);
Result<Port> choose_port(const protocol::HostDescription& host, int number);

}  // namespace verbatim::ibumad
