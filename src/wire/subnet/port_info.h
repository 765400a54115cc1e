#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>

#include "base/net/link_rate.h"
#include "base/net/path.h"
#include "base/types.h"
#include "wire/mad/fields.h"

namespace verbatim::wire {

/// State of the port's link layer (IBA 14.2.5.6). `no_change` is for Set only.
enum class PortState : std::uint8_t {
  no_change = 0,
  down = 1,
  initialize = 2,
  armed = 3,
  active = 4
};

/// State of the port's physical layer. `no_change` is for Set only, which may ask for 1 to 3.
enum class PhysicalState : std::uint8_t {
  no_change = 0,
  sleep = 1,
  polling = 2,
  disabled = 3,
  training = 4,
  link_up = 5,
  error_recovery = 6,
  phy_test = 7,
};

/// Data lanes: VL0; 0 and 1; 0 to 3; 0 to 7; 0 to 14. Zero: no change.
enum class VirtualLanes : std::uint8_t {
  no_change = 0,
  one = 1,
  two = 2,
  four = 3,
  eight = 4,
  fifteen = 5
};

constexpr unsigned data_lanes_of(VirtualLanes lanes) {
  return lanes == VirtualLanes::fifteen                       ? 15u
         : lanes == VirtualLanes::no_change || raw(lanes) > 5 ? 0u
                                                              : 1u << (raw(lanes) - 1);
}

/// Bits of CapabilityMask.
namespace port_capability {
inline constexpr std::uint32_t kIsSm = 1u << 1;
inline constexpr std::uint32_t kNotice = 1u << 2;
inline constexpr std::uint32_t kTrap = 1u << 3;
inline constexpr std::uint32_t kOptionalIpd = 1u << 4;
inline constexpr std::uint32_t kAutomaticMigration = 1u << 5;
inline constexpr std::uint32_t kSlMapping = 1u << 6;
inline constexpr std::uint32_t kMKeyInNonvolatileMemory = 1u << 7;
inline constexpr std::uint32_t kPKeyInNonvolatileMemory = 1u << 8;
inline constexpr std::uint32_t kLedInfo = 1u << 9;
inline constexpr std::uint32_t kSmDisabled = 1u << 10;
inline constexpr std::uint32_t kSystemImageGuid = 1u << 11;
inline constexpr std::uint32_t kPKeySwitchExternalPortTrap = 1u << 12;
inline constexpr std::uint32_t kExtendedSpeeds = 1u << 14;
inline constexpr std::uint32_t kCapabilityMask2 = 1u << 15;
inline constexpr std::uint32_t kCommunicationManagement = 1u << 16;
inline constexpr std::uint32_t kSnmpTunneling = 1u << 17;
inline constexpr std::uint32_t kReinit = 1u << 18;
inline constexpr std::uint32_t kDeviceManagement = 1u << 19;
inline constexpr std::uint32_t kVendorClass = 1u << 20;
inline constexpr std::uint32_t kDrNotice = 1u << 21;
inline constexpr std::uint32_t kCapabilityMaskNotice = 1u << 22;
inline constexpr std::uint32_t kBootManagement = 1u << 23;
inline constexpr std::uint32_t kLinkRoundTripLatency = 1u << 24;
inline constexpr std::uint32_t kClientReregistration = 1u << 25;
inline constexpr std::uint32_t kOtherLocalChangesNotice = 1u << 26;
inline constexpr std::uint32_t kLinkSpeedWidthPairsTable = 1u << 27;
inline constexpr std::uint32_t kVendorMadsTable = 1u << 28;
inline constexpr std::uint32_t kMulticastPKeyTrapSuppression = 1u << 29;
inline constexpr std::uint32_t kMulticastForwardingTop = 1u << 30;
inline constexpr std::uint32_t kHierarchyInfo = 1u << 31;
}  // namespace port_capability

/// Bits of CapabilityMask2.
namespace port_capability2 {
inline constexpr std::uint16_t kSetNodeDescription = 0x0001;
inline constexpr std::uint16_t kPortInfoExtended = 0x0002;
inline constexpr std::uint16_t kVirtualization = 0x0004;
inline constexpr std::uint16_t kSwitchPortStateTable = 0x0008;
inline constexpr std::uint16_t kWidth2x = 0x0010;
inline constexpr std::uint16_t kSpeedHdr = 0x0020;
inline constexpr std::uint16_t kSpeedNdr = 0x0400;
inline constexpr std::uint16_t kSpeedXdr = 0x1000;
}  // namespace port_capability2

/// A port: its identity, capabilities, state and packet handling (IBA 14.2.5.6). `width_*` and
/// `speed_*` are masks; `*_active` has one bit; in `*_enabled` all ones mean "all that are
/// supported". subnet/link_speed.h maps speeds to bits. Times are exponents: 4.096 us * 2^n.
struct PortInfo {
  static constexpr std::size_t kSize = 64;
  /// With this HOQLife or more, a packet may wait at the head of its queue without limit.
  static constexpr std::uint8_t kUnlimitedHeadOfQueueLife = 0x14;
  std::uint64_t m_key = 0;
  std::uint64_t gid_prefix = 0;
  Lid lid{};
  Lid sm_lid{};
  std::uint32_t capabilities = 0;
  std::uint16_t diag_code = 0;
  std::uint16_t m_key_lease_period_s = 0;
  std::uint8_t local_port = 0;
  std::uint8_t width_enabled = 0;
  std::uint8_t width_supported = 0;
  LinkWidth width_active{};
  std::uint8_t speed_supported = 0;
  PortState state{};
  PhysicalState physical_state{};
  PhysicalState link_down_default_state{};
  std::uint8_t m_key_protect = 0;
  std::uint8_t lmc = 0;
  std::uint8_t speed_active = 0;
  std::uint8_t speed_enabled = 0;
  Mtu neighbor_mtu{};
  std::uint8_t sm_service_level = 0;
  VirtualLanes vl_cap{};
  std::uint8_t init_type = 0;
  std::uint8_t vl_high_limit = 0;  // In units of 4,096 bytes; 255: no limit.
  std::uint8_t vl_arbitration_high_cap = 0;
  std::uint8_t vl_arbitration_low_cap = 0;
  std::uint8_t init_type_reply = 0;
  Mtu mtu_cap{};
  std::uint8_t vl_stall_count = 0;
  std::uint8_t head_of_queue_life = 0;
  VirtualLanes operational_vls{};
  bool partition_enforcement_inbound = false;
  bool partition_enforcement_outbound = false;
  bool filter_raw_inbound = false;
  bool filter_raw_outbound = false;
  std::uint16_t m_key_violations = 0;
  std::uint16_t p_key_violations = 0;
  std::uint16_t q_key_violations = 0;
  std::uint8_t guid_cap = 0;
  bool client_reregister = false;
  std::uint8_t multicast_p_key_trap_suppression = 0;
  std::uint8_t subnet_timeout = 0;
  std::uint8_t response_time = 0;
  std::uint8_t local_physical_errors = 0;
  std::uint8_t overrun_errors = 0;
  std::uint16_t max_credit_hint = 0;
  std::uint8_t speed_extended2_active = 0;
  std::uint8_t speed_extended2_supported = 0;
  std::uint8_t speed_extended2_enabled = 0;
  std::uint32_t link_round_trip_latency = 0;  // 24 bits.
  std::uint16_t capabilities2 = 0;
  std::uint8_t speed_extended_active = 0;
  std::uint8_t speed_extended_supported = 0;
  std::uint8_t speed_extended_enabled = 0;
  friend bool operator==(const PortInfo&, const PortInfo&) = default;

  static constexpr auto kFields = std::tuple(
      field(&PortInfo::m_key, 0), field(&PortInfo::gid_prefix, 64), field(&PortInfo::lid, 128),
      field(&PortInfo::sm_lid, 144), field(&PortInfo::capabilities, 160),
      field(&PortInfo::diag_code, 192), field(&PortInfo::m_key_lease_period_s, 208),
      field(&PortInfo::local_port, 224), field(&PortInfo::width_enabled, 232),
      field(&PortInfo::width_supported, 240), field(&PortInfo::width_active, 248),
      field(&PortInfo::speed_supported, 256, 4), field(&PortInfo::state, 260, 4),
      field(&PortInfo::physical_state, 264, 4), field(&PortInfo::link_down_default_state, 268, 4),
      field(&PortInfo::m_key_protect, 272, 2), field(&PortInfo::lmc, 277, 3),
      field(&PortInfo::speed_active, 280, 4), field(&PortInfo::speed_enabled, 284, 4),
      field(&PortInfo::neighbor_mtu, 288, 4), field(&PortInfo::sm_service_level, 292, 4),
      field(&PortInfo::vl_cap, 296, 4), field(&PortInfo::init_type, 300, 4),
      field(&PortInfo::vl_high_limit, 304), field(&PortInfo::vl_arbitration_high_cap, 312),
      field(&PortInfo::vl_arbitration_low_cap, 320), field(&PortInfo::init_type_reply, 328, 4),
      field(&PortInfo::mtu_cap, 332, 4), field(&PortInfo::vl_stall_count, 336, 3),
      field(&PortInfo::head_of_queue_life, 339, 5), field(&PortInfo::operational_vls, 344, 4),
      field(&PortInfo::partition_enforcement_inbound, 348, 1),
      field(&PortInfo::partition_enforcement_outbound, 349, 1),
      field(&PortInfo::filter_raw_inbound, 350, 1), field(&PortInfo::filter_raw_outbound, 351, 1),
      field(&PortInfo::m_key_violations, 352), field(&PortInfo::p_key_violations, 368),
      field(&PortInfo::q_key_violations, 384), field(&PortInfo::guid_cap, 400),
      field(&PortInfo::client_reregister, 408, 1),
      field(&PortInfo::multicast_p_key_trap_suppression, 409, 2),
      field(&PortInfo::subnet_timeout, 411, 5), field(&PortInfo::response_time, 419, 5),
      field(&PortInfo::local_physical_errors, 424, 4), field(&PortInfo::overrun_errors, 428, 4),
      field(&PortInfo::max_credit_hint, 432), field(&PortInfo::speed_extended2_active, 448, 2),
      field(&PortInfo::speed_extended2_supported, 450, 2),
      field(&PortInfo::speed_extended2_enabled, 453, 3),
      field(&PortInfo::link_round_trip_latency, 456, 24), field(&PortInfo::capabilities2, 480),
      field(&PortInfo::speed_extended_active, 496, 4),
      field(&PortInfo::speed_extended_supported, 500, 4),
      field(&PortInfo::speed_extended_enabled, 507, 5));
};

/// Mellanox's attribute 0xff90: bit 0 of each field tells whether FDR10 is supported, enabled and
/// active.
struct MellanoxExtendedPortInfo {
  static constexpr std::size_t kSize = 16;
  static constexpr std::uint32_t kVendor = 0x2c9;  // Whose nodes have it.
  static constexpr std::uint8_t kFdr10 = 1;
  std::uint8_t state_change_enable = 0;
  std::uint8_t speed_supported = 0;
  std::uint8_t speed_enabled = 0;
  std::uint8_t speed_active = 0;
  friend bool operator==(const MellanoxExtendedPortInfo&,
                         const MellanoxExtendedPortInfo&) = default;
  static constexpr auto kFields =
      std::tuple(field(&MellanoxExtendedPortInfo::state_change_enable, 24),
                 field(&MellanoxExtendedPortInfo::speed_supported, 56),
                 field(&MellanoxExtendedPortInfo::speed_enabled, 88),
                 field(&MellanoxExtendedPortInfo::speed_active, 120));
};

}  // namespace verbatim::wire
