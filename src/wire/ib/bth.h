#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/types.h"
#include "wire/error.h"
#include "wire/ib/opcode.h"

namespace verbatim::wire {

/// Base Transport Header (IBA volume 1, section 9.2): first header of every transport packet.
///
///     byte   0        1                2-3     4           5-7      8          9-11
///          +--------+--+--+----+------+-------+-+-+-------+--------+-+--------+------+
///          | opcode |SE|M |pad | tver | pkey  |F|B| rsvd  | destqp |A| rsvd   | psn  |
///          +--------+--+--+----+------+-------+-+-+-------+--------+-+--------+------+
///     bits    8      1  1   2     4      16    1 1    6       24    1     7      24
///
/// Reserved bits are ignored on receive and sent as zero; F (FECN) and B (BECN) likewise, because
/// there is no congestion control. TVer is always 0.
struct Bth {
  static constexpr std::size_t kSize = 12;
  Opcode opcode{};
  bool solicited_event = false;
  bool migrated = true;        // M: the sender's path migration state is "migrated".
  std::uint8_t pad_count = 0;  // Bytes of padding after the payload, 0 to 3.
  PKey pkey = kDefaultPKey;
  Qpn dest_qp{};
  bool ack_request = false;
  Psn psn{};
  friend bool operator==(const Bth&, const Bth&) = default;
};

constexpr bool is_valid(PKey pkey) { return (raw(pkey) & 0x7fff) != 0; }

/// Two P_Keys match if their lower 15 bits are equal and not 0, and at least one is a full member's
/// (IBA 10.9.3).
constexpr bool pkeys_match(PKey one, PKey other) {
  constexpr std::uint16_t kMembership = 0x8000;
  constexpr std::uint16_t kBase = 0x7fff;
  return (raw(one) & kBase) == (raw(other) & kBase) && (raw(one) & kBase) != 0 &&
         ((raw(one) | raw(other)) & kMembership) != 0;
}

/// Checks the length and TVer. The opcode may be unknown.
///
/// Written field by field into `bth`: copying a header that was just built elsewhere stalls until
/// all earlier stores, such as the last packet's payload, have left the store buffer.
inline std::optional<WireError> decode_bth(ByteSpan packet, Bth& bth) {
  if (packet.size() < Bth::kSize) return WireError::too_short;
  const std::byte* at = packet.data();
  const auto flags = std::to_integer<std::uint8_t>(at[1]);
  // IBA C9-5: drop packets of another transport header version.
  if ((flags & 0x0f) != 0) return WireError::transport_version;
  bth.opcode = static_cast<Opcode>(at[0]);
  bth.solicited_event = (flags & 0x80) != 0;
  bth.migrated = (flags & 0x40) != 0;
  bth.pad_count = static_cast<std::uint8_t>(flags >> 4 & 3);
  bth.pkey = static_cast<PKey>(load_be<std::uint16_t>(at + 2));
  bth.dest_qp = Qpn(load_be24(at + 5));
  bth.ack_request = (at[8] & std::byte{0x80}) != std::byte{0};
  bth.psn = Psn(load_be24(at + 9));
  return {};
}

inline void encode(const Bth& header, std::span<std::byte, Bth::kSize> out) {
  out[0] = static_cast<std::byte>(header.opcode);
  out[1] = static_cast<std::byte>((header.solicited_event ? 0x80 : 0) |
                                  (header.migrated ? 0x40 : 0) | (header.pad_count & 3) << 4);
  store_be(&out[2], raw(header.pkey));
  out[4] = std::byte{0};
  store_be24(&out[5], header.dest_qp.value());
  out[8] = header.ack_request ? std::byte{0x80} : std::byte{0};
  store_be24(&out[9], header.psn.value());
}

}  // namespace verbatim::wire
