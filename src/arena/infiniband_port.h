#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/inplace_vector.h"
#include "base/net/path.h"
#include "base/types.h"

namespace verbatim::arena {

inline constexpr std::size_t kPKeysMax = 128;
/// Ports of an InfiniBand adapter that programs see, as many as cards have.
inline constexpr std::size_t kInfinibandPortsMax = 2;

/// An InfiniBand port as its fabric's manager has set it (PortInfo, IBA 14.2.5.6): the numbers are
/// those of `ibv_port_attr`.
struct InfinibandPort {
  std::uint64_t gid_prefix = 0;
  std::uint64_t guid = 0;
  std::uint32_t capabilities = 0;
  std::uint32_t rate_mbps = 0;
  std::uint32_t reregistrations = 0;  // How often a subnet manager has asked for one.
  Lid lid{};
  Lid sm_lid{};
  std::uint16_t speed = 0;
  std::uint8_t width = 0;
  std::uint8_t lmc = 0;
  std::uint8_t sm_service_level = 0;
  std::uint8_t state = 0;
  std::uint8_t physical_state = 0;
  std::uint8_t mtu = 0;
  std::uint8_t mtu_max = 0;
  std::uint8_t virtual_lanes = 0;
  std::uint8_t subnet_timeout = 0;
  std::uint8_t init_type_reply = 0;
  InplaceVector<std::uint16_t, kPKeysMax> pkeys{};

  bool is_active() const { return state == kActive; }
  static constexpr std::uint8_t kActive = 4;
  friend bool operator==(const InfinibandPort&, const InfinibandPort&) = default;
};

/// Entry 0 of the port's P_Key table; the default P_Key until a subnet manager has set the table.
inline PKey first_pkey(const InfinibandPort& port) {
  return port.pkeys.empty() ? kDefaultPKey : PKey{port.pkeys[0]};
}

/// Entry 0 of the port's GID table.
inline Gid gid_of(const InfinibandPort& port) {
  Gid gid;
  auto* const bytes = reinterpret_cast<std::byte*>(gid.bytes.data());
  store_be(bytes, port.gid_prefix);
  store_be(bytes + sizeof port.gid_prefix, port.guid);
  return gid;
}

}  // namespace verbatim::arena
