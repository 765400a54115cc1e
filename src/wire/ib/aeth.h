#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>

#include "base/bytes.h"
#include "base/time.h"
#include "wire/error.h"

namespace verbatim::wire {

/// Message sequence number, 24 bits: how many requests the responder has completed (IBA 9.7.7.1).
class Msn {
 public:
  constexpr Msn() = default;
  constexpr explicit Msn(std::uint32_t value) : value_(value & 0xffffff) {}
  constexpr std::uint32_t value() const { return value_; }
  friend constexpr Msn operator+(Msn msn, std::uint32_t messages) {
    return Msn(msn.value_ + messages);
  }
  friend constexpr bool operator==(Msn, Msn) = default;

 private:
  std::uint32_t value_ = 0;
};

/// Why a responder refuses a request (IBA volume 1, table 46). Codes 5 to 31 are reserved.
enum class NakCode : std::uint8_t {
  psn_sequence_error = 0,
  invalid_request = 1,
  remote_access_error = 2,
  remote_operational_error = 3,
  invalid_rd_request = 4,
};

/// Credit count of a responder that gives no credits: it uses a shared receive queue, or no
/// end-to-end flow control (IBA 9.7.7.2, table 47).
inline constexpr std::uint8_t kCreditsInvalid = 31;

/// Time that the requester waits after an RNR NAK, by timer code (IBA volume 1, table 45).
inline constexpr std::array<TimeNs, 32> kRnrTimerNs = [] {
  // In units of 10 µs; code 0 is the longest time.
  constexpr std::array<std::uint32_t, 32> kTenMicroseconds{
      65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
      48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
      2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  std::array<TimeNs, 32> table{};
  for (std::size_t i = 0; i < table.size(); ++i) {
    table[i] = kTenMicroseconds[i] * 10 * kMicrosecond;
  }
  return table;
}();

/// The syndrome of an AETH (IBA volume 1, tables 44 to 47): an acknowledgement with a credit count,
/// an RNR NAK with a timer code, or a NAK with its code. Only valid values can be built.
///
///     bit    7      6-5                          4-0
///          +------+----------------------------+----------------------------------+
///          | rsvd | 00 ACK  01 RNR NAK  11 NAK | credit count, timer code or code |
///          +------+----------------------------+----------------------------------+
class Syndrome {
 public:
  enum class Kind : std::uint8_t { ack = 0, rnr_nak = 1, nak = 3 };

  /// An acknowledgement without a credit count.
  constexpr Syndrome() = default;
  static constexpr Syndrome ack(std::uint8_t credit_count = kCreditsInvalid) {
    return Syndrome(Kind::ack, credit_count);
  }
  static constexpr Syndrome rnr_nak(std::uint8_t timer_code) {
    return Syndrome(Kind::rnr_nak, timer_code);
  }
  static constexpr Syndrome nak(NakCode code) {
    return Syndrome(Kind::nak, static_cast<std::uint8_t>(code));
  }
  static constexpr std::expected<Syndrome, WireError> from_wire(std::uint8_t bits) {
    const auto kind = static_cast<std::uint8_t>(bits >> 5 & 3);
    const auto value = static_cast<std::uint8_t>(bits & 31);
    if (kind == 2 || (kind == 3 && value > 4)) return std::unexpected(WireError::reserved_syndrome);
    return Syndrome(static_cast<Kind>(kind), value);
  }

  constexpr Kind kind() const { return kind_; }
  constexpr bool is_ack() const { return kind_ == Kind::ack; }
  constexpr bool is_rnr_nak() const { return kind_ == Kind::rnr_nak; }
  constexpr bool is_nak() const { return kind_ == Kind::nak; }
  /// Each accessor is valid only for its kind of syndrome.
  constexpr std::uint8_t credit_count() const { return value_; }
  constexpr std::uint8_t rnr_timer_code() const { return value_; }
  constexpr TimeNs rnr_timer_ns() const { return kRnrTimerNs[value_]; }
  constexpr NakCode nak_code() const { return static_cast<NakCode>(value_); }

  constexpr std::uint8_t to_wire() const {
    return static_cast<std::uint8_t>(static_cast<std::uint8_t>(kind_) << 5 | value_);
  }
  friend constexpr bool operator==(Syndrome, Syndrome) = default;

 private:
  constexpr Syndrome(Kind kind, std::uint8_t value)
      : kind_(kind), value_(static_cast<std::uint8_t>(value & 31)) {}
  Kind kind_ = Kind::ack;
  std::uint8_t value_ = kCreditsInvalid;
};

/// ACK Extended Transport Header (IBA volume 1, section 9.3.5).
///
///     byte   0          1-3
///          +----------+------+
///          | syndrome | MSN  |
///          +----------+------+
struct Aeth {
  static constexpr std::size_t kSize = 4;
  Syndrome syndrome{};
  Msn msn{};
  friend bool operator==(const Aeth&, const Aeth&) = default;
};

inline std::expected<Aeth, WireError> decode_aeth(std::span<const std::byte, Aeth::kSize> bytes) {
  const auto syndrome = Syndrome::from_wire(std::to_integer<std::uint8_t>(bytes[0]));
  if (!syndrome) return std::unexpected(syndrome.error());
  return Aeth{.syndrome = *syndrome, .msn = Msn(load_be24(&bytes[1]))};
}

inline void encode(const Aeth& header, std::span<std::byte, Aeth::kSize> out) {
  out[0] = static_cast<std::byte>(header.syndrome.to_wire());
  store_be24(&out[1], header.msn.value());
}

}  // namespace verbatim::wire
