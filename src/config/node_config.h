#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/net/address.h"
#include "config/device.h"
#include "config/roce_versions.h"
#include "config/wire_protocol.h"

namespace verbatim::config {

/// Configuration of a node. Its agent reads it once, when the node begins.
struct NodeConfig {
  std::vector<SocketAddress> addresses;  // Empty: those of `interface`, or the node's default.
  std::string interface;                 // Empty: the interface that has the first address.
  std::string device = "verbatim0";      // A name or a rule; see device_name.h.
  std::optional<std::uint64_t> node_guid;
  WireProtocol protocol = WireProtocol::roce;
  RoceVersions versions = {RoceVersion::v2};
  const Profile* profile = &profiles().front();
  DeviceLimits limits = profile->limits;
  std::string firmware{profile->firmware};
  bool enforces_memlock = false;
  std::string fabric = "default";  // The fabric of `host`.
  std::string function;            // Of a card, as its interface: "SOCKET/vf2"; empty: none.
  std::string host;                // A host of a fabric, by its name or GUID; empty: none.
};

/// A value, and where it was set: "a.conf:3", "VERBATIM_ADDRESS", "--address".
struct Setting {
  std::string key;
  std::string value;
  std::string from;
};

/// A key of a node's configuration.
struct Key {
  std::string_view name;
  std::string_view variable;  // Environment variable; empty: only a file can set the key.
  std::string_view meaning;
  const LimitField* limit = nullptr;
  /// EINVAL, ENODEV. Null for a limit.
  Result<void> (*set)(std::string_view value, NodeConfig& config) = nullptr;
  std::string (*text)(const NodeConfig& config) = nullptr;
};

/// In the order of application: the profile before the limits.
const std::vector<Key>& keys();
/// Returns null if there is no such key.
const Key* find_key(std::string_view name);
/// Returns the key that is most similar to `name`; empty if none is.
std::string_view nearest_key(std::string_view name);

/// Sets one value. EINVAL with a text for an unknown key or an invalid value.
Result<void> apply(std::string_view key, std::string_view value, NodeConfig& config);
/// Returns the value of a key in a file's syntax; empty if it has none.
std::string text_of(const Key& key, const NodeConfig& config);

}  // namespace verbatim::config
