#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>

#include "wire/error.h"
#include "wire/mad/cm_common.h"

namespace verbatim::wire {

/// The RDMA IP CM service (IBA annex A11): connections to an IP address and port. The service id
/// has the bytes 00 00 00 00 01, the IP protocol number and the destination port.
enum class PortSpace : std::uint16_t {  // Values as in librdmacm.
  sdp = 0x0001,                         // Annex A4: 0x10000 and the port.
  ipoib = 0x0002,
  tcp = 0x0106,
  udp = 0x0111,
  ib = 0x013f,
};

constexpr ServiceId service_id_of(PortSpace space, std::uint16_t port) {
  return static_cast<ServiceId>(std::uint64_t{raw(space)} << 16 | port);
}
constexpr std::uint16_t port_of(ServiceId id) { return static_cast<std::uint16_t>(raw(id)); }
/// Returns true for a service id of annex A11: an `RdmaIpHeader` begins the private data.
constexpr bool is_rdma_ip(ServiceId id) { return raw(id) >> 24 == 1 || raw(id) >> 16 == 2; }
/// Returns true for a service id of SDP: a Hello begins the private data.
constexpr bool is_sdp(ServiceId id) { return raw(id) >> 16 == 1; }
/// Returns the service id's port space. Requires `is_rdma_ip`.
constexpr PortSpace port_space_of(ServiceId id) { return static_cast<PortSpace>(raw(id) >> 16); }

/// Begins the private data of a REQ or SIDR_REQ to the RDMA IP CM service (IBA A11.3.2).
///
///     byte   0 (4, 4)         1 (4, 4)            2-3      4-19      20-35
///          +-------+-------+---------+----------+--------+---------+-------------+
///          | major | minor | IP      | rsvd     | source | source  | destination |
///          | vers. | vers. | version |          | port   | address | address     |
///          +-------+-------+---------+----------+--------+---------+-------------+
///
/// On the wire an IPv4 address is in the last four bytes of its field, and the others are zero.
/// Here both are GIDs: an IPv4 address is mapped (::ffff:a.b.c.d).
struct RdmaIpHeader {
  static constexpr std::size_t kSize = 36;
  bool ipv4 = false;  // Both addresses are IPv4.
  std::uint16_t source_port = 0;
  Gid source{};
  Gid destination{};
  friend bool operator==(const RdmaIpHeader&, const RdmaIpHeader&) = default;
};

namespace detail {

inline Gid load_ip(const std::byte* at, bool ipv4) {
  Gid gid = load_gid(at);
  if (!ipv4) return gid;
  for (int i = 0; i < 10; ++i) gid.bytes[i] = 0;
  gid.bytes[10] = gid.bytes[11] = 0xff;
  return gid;
}

inline void store_ip(std::byte* at, Gid gid, bool ipv4) {
  if (ipv4) gid.bytes[10] = gid.bytes[11] = 0;
  store_gid(at, gid);
}

}  // namespace detail

/// Checks the versions. Ignores the bytes before an IPv4 address.
inline std::expected<RdmaIpHeader, WireError> decode_rdma_ip(
    std::span<const std::byte, RdmaIpHeader::kSize> bytes) {
  const std::uint8_t ip_version = bits_of(bytes[1], 4, 4);
  if (bytes[0] != std::byte{0} || (ip_version != 4 && ip_version != 6)) {
    return std::unexpected(WireError::rdma_ip_version);
  }
  const bool ipv4 = ip_version == 4;
  return RdmaIpHeader{.ipv4 = ipv4,
                      .source_port = load_be<std::uint16_t>(&bytes[2]),
                      .source = detail::load_ip(&bytes[4], ipv4),
                      .destination = detail::load_ip(&bytes[20], ipv4)};
}

/// The same of SDP's Hello (IBA annex A4), which is all of a REQ's private data: 16 bytes of
/// header, and then what `ulp/sdp/wire/hello.h` draws.
inline std::expected<RdmaIpHeader, WireError> decode_sdp_addresses(
    std::span<const std::byte> hello) {
  constexpr std::size_t kHelloBytes = 92;
  if (hello.size() < kHelloBytes || hello[0] != std::byte{0} ||
      load_be<std::uint32_t>(&hello[4]) != kHelloBytes) {
    return std::unexpected(WireError::rdma_ip_version);
  }
  const std::uint8_t ip_version = bits_of(hello[17], 4, 4);
  if (ip_version != 4 && ip_version != 6) return std::unexpected(WireError::rdma_ip_version);
  const bool ipv4 = ip_version == 4;
  return RdmaIpHeader{.ipv4 = ipv4,
                      .source_port = load_be<std::uint16_t>(&hello[28]),
                      .source = detail::load_ip(&hello[32], ipv4),
                      .destination = detail::load_ip(&hello[48], ipv4)};
}

inline void encode(const RdmaIpHeader& header, std::span<std::byte, RdmaIpHeader::kSize> out) {
  out[0] = std::byte{0};
  out[1] = to_bits(header.ipv4 ? 4 : 6, 4, 4);
  store_be(&out[2], header.source_port);
  detail::store_ip(&out[4], header.source, header.ipv4);
  detail::store_ip(&out[20], header.destination, header.ipv4);
}

}  // namespace verbatim::wire
