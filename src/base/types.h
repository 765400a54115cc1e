#pragma once

#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <type_traits>

/// Numbers with a meaning. Each has its own type, so that they do not mix.
namespace verbatim {

/// Queue pair number, 24 bits (IBA volume 1, section 9.2.5).
class Qpn {
 public:
  constexpr Qpn() = default;
  constexpr explicit Qpn(std::uint32_t value) : value_(value & 0xffffff) {}
  constexpr std::uint32_t value() const { return value_; }
  friend constexpr auto operator<=>(Qpn, Qpn) = default;

 private:
  std::uint32_t value_ = 0;
};

/// The destination queue pair number of every multicast packet (IBA 10.5.1).
inline constexpr Qpn kMulticastQpn{0xffffff};

/// Packet sequence number, 24 bits. It wraps, so it has a distance, not an order (IBA 9.7.2).
class Psn {
 public:
  constexpr Psn() = default;
  constexpr explicit Psn(std::uint32_t value) : value_(value & 0xffffff) {}
  constexpr std::uint32_t value() const { return value_; }
  friend constexpr Psn operator+(Psn psn, std::uint32_t packets) {
    return Psn(psn.value_ + packets);
  }
  friend constexpr Psn operator-(Psn psn, std::uint32_t packets) {
    return Psn(psn.value_ - packets);
  }
  friend constexpr bool operator==(Psn, Psn) = default;

 private:
  std::uint32_t value_ = 0;
};

/// Returns by how many packets `to` is ahead of `from`: -2^23 to 2^23 - 1.
constexpr std::int32_t distance(Psn from, Psn to) {
  return static_cast<std::int32_t>((to.value() - from.value()) << 8) >> 8;
}

/// Local or remote key of a memory region: the upper 24 bits select the table entry in a permuted
/// order; the lower 8 bits are random, or chosen by the user for a type 2 memory window.
enum class MemoryKey : std::uint32_t {};
/// Partition key; the highest bit means full membership.
enum class PKey : std::uint16_t {};
/// Queue key of a datagram queue pair.
enum class QKey : std::uint32_t {};
/// Number of a protection domain within its adapter.
enum class PdNumber : std::uint32_t {};
/// Number of a shared receive queue, 24 bits (IBA annex A14): what an XRC request names.
enum class SrqNumber : std::uint32_t {};

inline constexpr PKey kDefaultPKey{0xffff};

template <typename Enum>
constexpr auto raw(Enum value) {
  return static_cast<std::underlying_type_t<Enum>>(value);
}

/// Global identifier, in network byte order (IBA 4.1.1). RoCE: an IPv6 address, or an IPv4 address
/// mapped into one (annex A17).
struct Gid {
  std::array<std::uint8_t, 16> bytes{};
  friend constexpr auto operator<=>(const Gid&, const Gid&) = default;
  friend constexpr bool operator==(const Gid& left, const Gid& right) {
    // With constant size, the compiler compares two words; each request needs this.
    return __builtin_memcmp(left.bytes.data(), right.bytes.data(), sizeof left.bytes) == 0;
  }

  constexpr bool is_zero() const { return *this == Gid{}; }
  constexpr bool is_ipv4_mapped() const {
    for (int i = 0; i < 10; ++i) {
      if (bytes[i] != 0) return false;
    }
    return bytes[10] == 0xff && bytes[11] == 0xff;
  }
  constexpr bool is_link_local() const { return bytes[0] == 0xfe && (bytes[1] & 0xc0) == 0x80; }
  constexpr bool is_multicast() const {
    return bytes[0] == 0xff || (is_ipv4_mapped() && (bytes[12] & 0xf0) == 0xe0);
  }
};

/// Path MTUs of InfiniBand in bytes of payload. The enumerators' values are those of `enum
/// ibv_mtu`.
enum class Mtu : std::uint8_t { k256 = 1, k512 = 2, k1024 = 3, k2048 = 4, k4096 = 5 };

constexpr std::uint32_t bytes_of(Mtu mtu) { return 128u << raw(mtu); }

}  // namespace verbatim
