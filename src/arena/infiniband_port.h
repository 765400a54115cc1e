#pragma once

#include <cstddef>
#include <cstdint>

#include "base/bytes.h"
#include "base/inplace_vector.h"
#include "base/net/path.h"
#include "base/types.h"

namespace verbatim::arena {

inline constexpr std::size_t kPKeysMax = 128;

/// An InfiniBand port as its fabric's manager has set it (PortInfo, IBA 14.2.5.6): the numbers are
/// those of `ibv_port_attr`.
struct InfinibandPort {
  std::uint64_t gid_prefix = 0;
  std::uint64_t guid = 0;
  std::uint32_t capabilities = 0;
  std::uint32_t rate_mbps = 0;
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
  friend bool operator==(const InfinibandPort&, const InfinibandPort&) = default;
};

/// Entry 0 of the port's GID table.
inline Gid gid_of(const InfinibandPort& port) {
  Gid gid;
  auto* const bytes = reinterpret_cast<std::byte*>(gid.bytes.data());
  store_be(bytes, port.gid_prefix);
  store_be(bytes + sizeof port.gid_prefix, port.guid);
  return gid;
}

}  // namespace verbatim::arena
