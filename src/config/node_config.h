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

/// What a node is to be: its agent reads it once, when the node begins.
struct NodeConfig {
  std::vector<SocketAddress> addresses;  // Empty: `interface`'s, or the node's default.
  std::string interface;                 // Empty: whichever has the first address.
  std::string device = "verbatim0";      // A name or a rule: device_name.h.
  std::optional<std::uint64_t> node_guid;
  WireProtocol protocol = WireProtocol::roce;
  RoceVersions versions = {RoceVersion::v2};
  const Profile* profile = &profiles().front();
  DeviceLimits limits = profile->limits;
  std::string firmware{profile->firmware};
  bool enforces_memlock = false;
};

/// What names a value and where it was said: "a.conf:3", "VERBATIM_ADDRESS", "--address".
struct Setting {
  std::string key;
  std::string value;
  std::string from;
};

/// One thing that a node may be told.
struct Key {
  std::string_view name;
  std::string_view variable;  // Of the environment; empty: a file alone says it.
  std::string_view meaning;
  const LimitField* limit = nullptr;
  /// EINVAL, ENODEV. Null for a limit.
  Result<void> (*set)(std::string_view value, NodeConfig& config) = nullptr;
  std::string (*text)(const NodeConfig& config) = nullptr;
};

/// In the order in which they are applied: the profile before the limits.
const std::vector<Key>& keys();
/// Null where there is none.
const Key* find_key(std::string_view name);
/// The key that looks most like `name`; empty where none does.
std::string_view nearest_key(std::string_view name);

/// Sets one value. EINVAL for an unknown key or a value that it cannot have, in words.
Result<void> apply(std::string_view key, std::string_view value, NodeConfig& config);
/// The value of a key as a file would say it; empty where there is none.
std::string text_of(const Key& key, const NodeConfig& config);

}  // namespace verbatim::config
