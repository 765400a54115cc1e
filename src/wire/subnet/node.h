#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>

#include "wire/mad/fields.h"

namespace verbatim::wire {

enum class NodeType : std::uint8_t { channel_adapter = 1, switch_node = 2, router = 3 };

/// Name of a node in UTF-8 (IBA 14.2.5.2). It ends at the first zero byte, or with the field.
struct NodeDescription {
  static constexpr std::size_t kSize = 64;
  std::array<char, kSize> text{};
  friend bool operator==(const NodeDescription&, const NodeDescription&) = default;
  static constexpr auto kFields = std::tuple(field(&NodeDescription::text, 0));
};

/// Returns a description with the first 64 bytes of `text`.
inline NodeDescription node_description(std::string_view text) {
  NodeDescription description;
  text.copy(description.text.data(), description.text.size());
  return description;
}
/// Requires that `description` outlives the result.
inline std::string_view text_of(const NodeDescription& description) {
  const auto end = std::ranges::find(description.text, '\0');
  return {description.text.data(), static_cast<std::size_t>(end - description.text.begin())};
}

/// Kind and identity of a node (IBA 14.2.5.3). `port_guid` and `local_port` are those of the port
/// that received the request.
struct NodeInfo {
  static constexpr std::size_t kSize = 40;
  std::uint8_t base_version = 1;
  std::uint8_t class_version = 1;
  NodeType node_type{};
  std::uint8_t ports = 0;  // Physical ports, without a switch's port 0.
  std::uint64_t system_image_guid = 0;
  std::uint64_t node_guid = 0;
  std::uint64_t port_guid = 0;
  std::uint16_t partition_cap = 0;  // Entries of the P_Key table.
  std::uint16_t device_id = 0;
  std::uint32_t revision = 0;
  std::uint8_t local_port = 0;
  std::uint32_t vendor_id = 0;  // 24 bits, assigned by the IEEE.
  friend bool operator==(const NodeInfo&, const NodeInfo&) = default;
  static constexpr auto kFields =
      std::tuple(field(&NodeInfo::base_version, 0), field(&NodeInfo::class_version, 8),
                 field(&NodeInfo::node_type, 16), field(&NodeInfo::ports, 24),
                 field(&NodeInfo::system_image_guid, 32), field(&NodeInfo::node_guid, 96),
                 field(&NodeInfo::port_guid, 160), field(&NodeInfo::partition_cap, 224),
                 field(&NodeInfo::device_id, 240), field(&NodeInfo::revision, 256),
                 field(&NodeInfo::local_port, 288), field(&NodeInfo::vendor_id, 296, 24));
};

/// Capabilities and forwarding of a switch (IBA 14.2.5.4).
struct SwitchInfo {
  static constexpr std::size_t kSize = 20;
  /// Packets have no lifetime limit from this LifeTimeValue on; below, it is 4.096 us * 2^n.
  static constexpr std::uint8_t kUnlimitedLifetime = 0x14;
  std::uint16_t linear_forwarding_cap = 0;
  std::uint16_t random_forwarding_cap = 0;
  std::uint16_t multicast_forwarding_cap = 0;
  std::uint16_t linear_forwarding_top = 0;
  std::uint8_t default_port = 0;
  std::uint8_t default_multicast_primary_port = 0;
  std::uint8_t default_multicast_not_primary_port = 0;
  std::uint8_t lifetime = 0;
  bool port_state_change = false;
  std::uint8_t optimized_sl_to_vl_programming = 0;
  std::uint16_t lids_per_port = 0;
  std::uint16_t partition_enforcement_cap = 0;
  bool inbound_enforcement_cap = false;
  bool outbound_enforcement_cap = false;
  bool filter_raw_inbound_cap = false;
  bool filter_raw_outbound_cap = false;
  bool enhanced_port_0 = false;
  std::uint16_t multicast_forwarding_top = 0;
  friend bool operator==(const SwitchInfo&, const SwitchInfo&) = default;
  static constexpr auto kFields = std::tuple(
      field(&SwitchInfo::linear_forwarding_cap, 0), field(&SwitchInfo::random_forwarding_cap, 16),
      field(&SwitchInfo::multicast_forwarding_cap, 32),
      field(&SwitchInfo::linear_forwarding_top, 48), field(&SwitchInfo::default_port, 64),
      field(&SwitchInfo::default_multicast_primary_port, 72),
      field(&SwitchInfo::default_multicast_not_primary_port, 80),
      field(&SwitchInfo::lifetime, 88, 5), field(&SwitchInfo::port_state_change, 93, 1),
      field(&SwitchInfo::optimized_sl_to_vl_programming, 94, 2),
      field(&SwitchInfo::lids_per_port, 96), field(&SwitchInfo::partition_enforcement_cap, 112),
      field(&SwitchInfo::inbound_enforcement_cap, 128, 1),
      field(&SwitchInfo::outbound_enforcement_cap, 129, 1),
      field(&SwitchInfo::filter_raw_inbound_cap, 130, 1),
      field(&SwitchInfo::filter_raw_outbound_cap, 131, 1),
      field(&SwitchInfo::enhanced_port_0, 132, 1),
      field(&SwitchInfo::multicast_forwarding_top, 144));
};

/// State of the port's locator light (IBA 14.2.5.15).
struct LedInfo {
  static constexpr std::size_t kSize = 4;
  bool is_on = false;
  friend bool operator==(const LedInfo&, const LedInfo&) = default;
  static constexpr auto kFields = std::tuple(field(&LedInfo::is_on, 0, 1));
};

}  // namespace verbatim::wire
