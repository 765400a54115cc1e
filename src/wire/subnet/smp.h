#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/net/path.h"
#include "wire/error.h"
#include "wire/mad/fields.h"
#include "wire/mad/mad.h"

namespace verbatim::wire {

inline constexpr Lid kPermissiveLid{0xffff};

/// Attributes of subnet management (IBA 14.2.5); the last one is Mellanox's.
enum class SubnetAttribute : std::uint16_t {
  notice = 0x0002,
  node_description = 0x0010,
  node_info = 0x0011,
  switch_info = 0x0012,
  guid_info = 0x0014,
  port_info = 0x0015,
  p_key_table = 0x0016,
  sl_to_vl_mapping_table = 0x0017,
  vl_arbitration_table = 0x0018,
  linear_forwarding_table = 0x0019,
  random_forwarding_table = 0x001a,
  multicast_forwarding_table = 0x001b,
  sm_info = 0x0020,
  vendor_diag = 0x0030,
  led_info = 0x0031,
  port_info_extended = 0x0033,
  mellanox_extended_port_info = 0xff90,
};

/// The route of a directed-route SMP (IBA 14.2.2): the egress port at each node. Entry 0 of both
/// paths is unused.
struct DirectedRoute {
  static constexpr std::uint8_t kHopsMax = 63;
  using Ports = std::array<std::uint8_t, kHopsMax + 1>;
  Lid source_lid = kPermissiveLid;       // DrSLID: permissive if the route begins at the requester.
  Lid destination_lid = kPermissiveLid;  // DrDLID: permissive if it ends at the responder.
  bool is_returning = false;             // D bit.
  std::uint8_t hop_pointer = 0;
  std::uint8_t hop_count = 0;
  Ports initial_path{};
  Ports return_path{};
  friend bool operator==(const DirectedRoute&, const DirectedRoute&) = default;

  /// Returns true if hop count and hop pointer are within a path; other SMPs are discarded.
  constexpr bool is_within_path() const {
    return hop_count <= kHopsMax && hop_pointer <= hop_count + 1;
  }
  /// Returns the port of one hop; 0, which leads nowhere, for a hop beyond the path.
  static constexpr std::uint8_t port_at(const Ports& path, unsigned hop) {
    return hop < path.size() ? path[hop] : std::uint8_t{0};
  }
};

inline constexpr std::size_t kSmpDataBytes = 64;

/// Subnet management packet (IBA 14.2.1): the MAD of QP0, LID routed or with a directed route.
///
///     byte   0-3               4 (1, 15 bits)  6         7       8-15          16-19  20-23
///          +-----------------+---+-----------+---------+-------+-------------+------+----------+
///          | version, class, | D | status    | hop     | hop   | transaction | attr | modifier |
///          | version, method |   |           | pointer | count | id          |      |          |
///          +-----------------+---+-----------+---------+-------+-------------+------+----------+
///     byte   24-31   32-33    34-35    36-63  64-127  128-191        192-255
///          +-------+--------+--------+------+-------+--------------+-------------+
///          | M_Key | DrSLID | DrDLID | rsvd | data  | initial path | return path |
///          +-------+--------+--------+------+-------+--------------+-------------+
///
/// LID routed: the status has 16 bits, and the route's fields are reserved.
struct Smp {
  static constexpr std::size_t kSize = kMadBytes;
  static constexpr std::uint8_t kClassVersion = 1;
  MadMethod method{};
  MadStatus status{};
  std::uint64_t transaction = 0;
  SubnetAttribute attribute{};
  std::uint32_t modifier = 0;
  std::uint64_t m_key = 0;
  std::optional<DirectedRoute> route{};  // None: LID routed.
  std::array<std::byte, kSmpDataBytes> data{};
  friend bool operator==(const Smp&, const Smp&) = default;
};

/// Checks length, versions and class. Accepts any method, attribute, hop count and hop pointer: the
/// agent decides what to do with them (IBA 14.2.2, 14.3).
std::expected<Smp, WireError> decode_smp(ByteSpan mad);
void encode(const Smp& smp, std::span<std::byte, Smp::kSize> out);

/// Decodes the SMP's data as attribute `T`.
template <Fields T>
T data_as(const Smp& smp) {
  return decode<T>(std::span(smp.data).template first<T::kSize>());
}
template <Fields T>
void set_data(Smp& smp, const T& attribute) {
  smp.data.fill(std::byte{0});
  encode(attribute, std::span(smp.data).template first<T::kSize>());
}

}  // namespace verbatim::wire
