#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "base/types.h"

namespace verbatim::wire {

/// Datagram Extended Transport Header (IBA volume 1, section 9.3.2): the sender's queue pair
/// number, and the Q_Key that the receiver checks.
///
///     byte   0-3     4      5-7
///          +-------+------+-----------+
///          | Q_Key | rsvd | source qp |
///          +-------+------+-----------+
struct Deth {
  static constexpr std::size_t kSize = 8;
  QKey qkey{};
  Qpn source_qp{};
  friend bool operator==(const Deth&, const Deth&) = default;
};

inline Deth decode_deth(std::span<const std::byte, Deth::kSize> bytes) {
  return {.qkey = static_cast<QKey>(load_be<std::uint32_t>(&bytes[0])),
          .source_qp = Qpn(load_be24(&bytes[5]))};
}

inline void encode(const Deth& header, std::span<std::byte, Deth::kSize> out) {
  store_be(&out[0], raw(header.qkey));
  out[4] = std::byte{0};
  store_be24(&out[5], header.source_qp.value());
}

}  // namespace verbatim::wire
