#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>

#include "base/net/path.h"
#include "base/types.h"
#include "wire/mad/fields.h"

namespace verbatim::wire {

/// The capabilities of a management class's agent, where its requests are redirected, and where its
/// traps go (IBA 13.4.8.1). The bits of `capabilities` from bit 8 on depend on the class.
struct ClassPortInfo {
  static constexpr std::size_t kSize = 72;
  std::uint8_t base_version = 0;
  std::uint8_t class_version = 0;
  std::uint16_t capabilities = 0;
  std::uint32_t capabilities2 = 0;
  std::uint8_t response_time = 0;  // 4.096 us * 2^n.
  Gid redirect_gid{};
  std::uint8_t redirect_traffic_class = 0;
  std::uint8_t redirect_service_level = 0;
  std::uint32_t redirect_flow_label = 0;
  Lid redirect_lid{};
  PKey redirect_p_key{};
  std::uint32_t redirect_qpn = 0;
  QKey redirect_q_key{};
  Gid trap_gid{};
  std::uint8_t trap_traffic_class = 0;
  std::uint8_t trap_service_level = 0;
  std::uint32_t trap_flow_label = 0;
  Lid trap_lid{};
  PKey trap_p_key{};
  std::uint8_t trap_hop_limit = 0;
  std::uint32_t trap_qpn = 0;
  QKey trap_q_key{};
  friend bool operator==(const ClassPortInfo&, const ClassPortInfo&) = default;
  static constexpr auto kFields = std::tuple(
      field(&ClassPortInfo::base_version, 0), field(&ClassPortInfo::class_version, 8),
      field(&ClassPortInfo::capabilities, 16), field(&ClassPortInfo::capabilities2, 32, 27),
      field(&ClassPortInfo::response_time, 59, 5), field(&ClassPortInfo::redirect_gid, 64),
      field(&ClassPortInfo::redirect_traffic_class, 192),
      field(&ClassPortInfo::redirect_service_level, 200, 4),
      field(&ClassPortInfo::redirect_flow_label, 204, 20), field(&ClassPortInfo::redirect_lid, 224),
      field(&ClassPortInfo::redirect_p_key, 240), field(&ClassPortInfo::redirect_qpn, 264, 24),
      field(&ClassPortInfo::redirect_q_key, 288), field(&ClassPortInfo::trap_gid, 320),
      field(&ClassPortInfo::trap_traffic_class, 448),
      field(&ClassPortInfo::trap_service_level, 456, 4),
      field(&ClassPortInfo::trap_flow_label, 460, 20), field(&ClassPortInfo::trap_lid, 480),
      field(&ClassPortInfo::trap_p_key, 496), field(&ClassPortInfo::trap_hop_limit, 512),
      field(&ClassPortInfo::trap_qpn, 520, 24), field(&ClassPortInfo::trap_q_key, 544));
};

/// Bits of a performance agent's ClassPortInfo::capabilities (IBA 16.1.3.1).
namespace performance_capability {
inline constexpr std::uint16_t kAllPortSelect = 1u << 8;
inline constexpr std::uint16_t kExtendedCounters = 1u << 9;
inline constexpr std::uint16_t kExtendedCountersWithoutCasts = 1u << 10;  // Unicast, multicast.
inline constexpr std::uint16_t kTransmitWait = 1u << 12;
inline constexpr std::uint16_t kQp1Dropped = 1u << 15;
}  // namespace performance_capability

}  // namespace verbatim::wire
