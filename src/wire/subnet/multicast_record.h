#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>

#include "base/types.h"
#include "wire/mad/fields.h"

namespace verbatim::wire {

/// How a port is in a multicast group: bits, of which it may have several (IBA 15.2.5.17.2).
inline constexpr std::uint8_t kFullMember = 1;
inline constexpr std::uint8_t kNonMember = 2;           // It receives; the group does not last.
inline constexpr std::uint8_t kSendOnlyNonMember = 4;   // It sends; the group does not last.
inline constexpr std::uint8_t kSendOnlyFullMember = 8;  // It sends, and the group lasts.
inline constexpr std::uint8_t kJoinStates = 15;

/// A multicast group, and how a port is its member: MCMemberRecord (IBA 15.2.5.17). A selector says
/// what the value beside it bounds: 0 greater than, 1 less than, 2 exactly, 3 the largest.
struct MulticastRecord {
  static constexpr std::size_t kSize = 52;
  /// Bits of a component mask.
  enum Component : std::uint64_t {
    kGroup = 1 << 0,
    kPort = 1 << 1,
    kQKey = 1 << 2,
    kLid = 1 << 3,
    kMtuSelector = 1 << 4,
    kMtu = 1 << 5,
    kTrafficClass = 1 << 6,
    kPKey = 1 << 7,
    kRateSelector = 1 << 8,
    kRate = 1 << 9,
    kLifeTimeSelector = 1 << 10,
    kLifeTime = 1 << 11,
    kServiceLevel = 1 << 12,
    kFlowLabel = 1 << 13,
    kHopLimit = 1 << 14,
    kScope = 1 << 15,
    kJoinState = 1 << 16,
    kProxyJoin = 1 << 17,
  };
  Gid group{};
  Gid port{};
  std::uint32_t qkey = 0;
  std::uint16_t lid = 0;
  std::uint8_t mtu_selector = 0;
  std::uint8_t mtu = 0;  // 1 to 5: 256 to 4,096 bytes.
  std::uint8_t traffic_class = 0;
  std::uint16_t pkey = 0;
  std::uint8_t rate_selector = 0;
  std::uint8_t rate = 0;  // As `ibv_rate`.
  std::uint8_t life_time_selector = 0;
  std::uint8_t life_time = 0;  // 4.096 us * 2^this.
  std::uint8_t service_level = 0;
  std::uint32_t flow_label = 0;
  std::uint8_t hop_limit = 0;
  std::uint8_t scope = 0;
  std::uint8_t join_state = 0;
  bool proxy_join = false;
  friend bool operator==(const MulticastRecord&, const MulticastRecord&) = default;
  static constexpr auto kFields = std::tuple(
      field(&MulticastRecord::group, 0, 128), field(&MulticastRecord::port, 128, 128),
      field(&MulticastRecord::qkey, 256), field(&MulticastRecord::lid, 288),
      field(&MulticastRecord::mtu_selector, 304, 2), field(&MulticastRecord::mtu, 306, 6),
      field(&MulticastRecord::traffic_class, 312), field(&MulticastRecord::pkey, 320),
      field(&MulticastRecord::rate_selector, 336, 2), field(&MulticastRecord::rate, 338, 6),
      field(&MulticastRecord::life_time_selector, 344, 2),
      field(&MulticastRecord::life_time, 346, 6), field(&MulticastRecord::service_level, 352, 4),
      field(&MulticastRecord::flow_label, 356, 20), field(&MulticastRecord::hop_limit, 376),
      field(&MulticastRecord::scope, 384, 4), field(&MulticastRecord::join_state, 388, 4),
      field(&MulticastRecord::proxy_join, 392, 1));
};

}  // namespace verbatim::wire
