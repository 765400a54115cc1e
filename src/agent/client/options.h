#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/protocol/node.h"
#include "base/error.h"
#include "base/net/address.h"

namespace verbatim::agent {

using config::parse_addresses;

/// Which node, and how to start its agent. These settings have priority over the node's file.
struct AgentOptions {
  /// 1 to 63 letters, digits, '-', '_' or '.', the first a letter or digit.
  std::string node = "local";
  /// Addresses (ports are ignored); empty: those of the running node, or its default.
  std::vector<SocketAddress> addresses;
  RoceVersions versions;                 // Empty: those of the running node, or version 2.
  std::optional<WireProtocol> protocol;  // None: that of the running node, or RoCE.
  std::string device;                    // Name or rule; empty: that of the running node.
  std::string profile;                   // Empty: that of the running node.
  /// Path of verbatimd; empty: searched beside the library or program with this code, then in PATH.
  std::string agent_program;

  /// Reads VERBATIM_NODE, VERBATIM_ADDRESS (comma separated), VERBATIM_ROCE, VERBATIM_PROTOCOL,
  /// VERBATIM_DEVICE, VERBATIM_PROFILE and VERBATIMD. EINVAL if one is malformed.
  static Result<AgentOptions> from_environment();
};

}  // namespace verbatim::agent
