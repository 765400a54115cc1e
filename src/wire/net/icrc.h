#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include <isa-l/crc.h>

#include "base/bytes.h"
#include "wire/ib/bth.h"
#include "wire/net/ip.h"
#include "wire/net/lrh.h"

/// The invariant CRC (IBA volume 1, section 7.8.1; annexes A16.5.1 and A17.3.3). Of RoCE: CRC-32
/// over eight bytes of ones in place of the LRH, the GRH (v1) or the IP and UDP headers (v2), BTH,
/// extended headers, payload and padding. Fields that routers may change count as ones: traffic
/// class, hop limit and flow label, the IPv4 and UDP checksums, and byte 4 of the BTH (FECN, BECN).
/// The ICRC follows the padding, least significant byte first.
namespace verbatim::wire {

inline constexpr std::size_t kIcrcBytes = 4;

/// The CRC of a packet in pieces: feed them in order, then take the value.
class Icrc {
 public:
  explicit Icrc(std::uint32_t value) : value_(value) {}
  void update(ByteSpan bytes) {
    // ISA-L does not write to its input.
    value_ = crc32_gzip_refl(
        value_, const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(bytes.data())),
        bytes.size());
  }
  std::uint32_t value() const { return value_; }

 private:
  std::uint32_t value_;
};

inline void store_icrc(std::uint32_t value, std::span<std::byte, kIcrcBytes> out) {
  store_be(out.data(), std::byteswap(value));
}
inline std::uint32_t load_icrc(std::span<const std::byte, kIcrcBytes> bytes) {
  return std::byteswap(load_be<std::uint32_t>(bytes.data()));
}

/// The bytes before the BTH that the ICRC covers, prepared for one flow: each packet costs a copy
/// of at most 56 bytes and one pass over them. An immutable value; any thread may use it.
class IcrcSeed {
 public:
  explicit IcrcSeed(const IpFlow& flow);
  /// InfiniBand without a GRH: the ICRC covers the LRH, except for its virtual lane. (With a GRH it
  /// is that of RoCE v1.)
  explicit IcrcSeed(const Lrh& header);

  /// Begins a packet. `headers`: the encoded BTH and extended headers from `encode_headers`, at
  /// most kHeadersMaxBytes. `udp_length` counts the UDP header (also for v1, which has none, and
  /// for InfiniBand, whose LRH is as long), `headers`, payload, padding and ICRC.
  Icrc start(std::uint16_t udp_length, std::uint16_t ip_identification, ByteSpan headers) const;

  /// Computes the ICRC of a packet in one piece: the bytes between the UDP header and the ICRC.
  std::uint32_t compute(ByteSpan packet, std::uint16_t ip_identification) const;

  bool is_ipv4() const { return is_ipv4_; }

 private:
  std::array<std::byte, 8 + kIpUdpMaxBytes> image_;
  bool is_ipv4_;
  bool has_udp_;
  bool has_lrh_;           // And nothing else before the BTH.
  std::size_t ip_bytes_;   // Of the IP header or the GRH; 0 with an LRH.
  std::size_t udp_bytes_;  // 0 without UDP.
};

/// Checks the ICRC at the end of `packet`, which contains all bytes after the UDP header. Returns
/// the IP identification for which it is right, or nothing.
///
/// The ICRC covers the IPv4 identification (and the DF flag), which a socket does not show. So on a
/// mismatch the identification that explains it is computed, for a CRC is linear. Other damage
/// passes as an identification with a probability of 2^-15. Over IPv6 the ICRC must be equal.
std::optional<std::uint16_t> verify_icrc(const IcrcSeed& seed, ByteSpan packet,
                                         std::uint16_t expected_identification);

/// The ICRC that a whole InfiniBand packet, LRH to ICRC, must have. Nothing if its headers are not
/// those of a packet with a BTH.
std::optional<std::uint32_t> infiniband_icrc(ByteSpan packet);

}  // namespace verbatim::wire
