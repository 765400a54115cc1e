#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/protocol/node.h"
#include "base/error.h"
#include "base/net/address.h"
#include "config/node_config.h"

namespace verbatim::agent {

using config::parse_addresses;

/// Which node, and how to start its agent.
struct AgentOptions {
  /// 1 to 63 letters, digits, '-', '_' or '.', the first a letter or digit.
  std::string node = "local";
  /// Addresses (ports are ignored); empty: those of the running node, or its default.
  std::vector<SocketAddress> addresses;
  RoceVersions versions;                 // Wanted; empty: whatever the node has, or version 2.
  std::optional<WireProtocol> protocol;  // Wanted; none: whatever the node has, or RoCE.
  std::string device;                    // Wanted name or rule; empty: whatever the node has.
  std::string profile;                   // Wanted; empty: whatever the node has.
  std::string fabric{};                  // Of `host`; empty: the default one.
  std::string host{};                    // Wanted host of a fabric; empty: whatever the node has.
  std::string function{};                // Wanted function of a card; empty: whatever it has.
  /// Path of verbatimd; empty: found beside the library or program that holds this code, else in
  /// PATH.
  std::string agent_program;

  /// From VERBATIM_NODE, VERBATIM_ADDRESS (comma separated), VERBATIM_ROCE, VERBATIM_PROTOCOL,
  /// VERBATIM_DEVICE, VERBATIM_PROFILE, VERBATIM_FABRIC, VERBATIM_HOST, VERBATIM_FUNCTION and
  /// VERBATIMD. On a host the node is the host's: `node_of_host`. EINVAL where malformed.
  static Result<AgentOptions> from_environment();

  /// What is wanted, as an agent's command line has it: these have priority over the node's file.
  std::vector<config::Setting> settings() const;
};

/// The node of a host of a fabric: FABRIC.HOST, where '_' stands for what no node name may have.
std::string node_of_host(std::string_view fabric, std::string_view host);

}  // namespace verbatim::agent
