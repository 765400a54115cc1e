#include "wire/net/icrc.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "wire/ib/packet.h"
#include "wire/net/grh.h"

namespace verbatim::wire {
namespace {

constexpr std::size_t kOnesBytes = 8;  // In place of the LRH.
constexpr std::size_t kBthReservedByte = 4;
constexpr std::size_t kIdentificationByte = 4;  // Offset in the IPv4 header.
constexpr std::byte kOnes{0xff};

/// The polynomial of CRC-32, reflected: bit 31 stands for x^0, bit 0 for x^31.
constexpr std::uint32_t kPolynomial = 0xedb88320;
constexpr std::uint32_t kOne = 0x80000000;

/// Multiplies modulo the polynomial.
constexpr std::uint32_t multiply(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (std::uint32_t bit = kOne; bit != 0; bit >>= 1) {
    product ^= (a & bit) != 0 ? b : 0;
    b = (b >> 1) ^ ((b & 1) != 0 ? kPolynomial : 0);  // b = b * x.
  }
  return product;
}

/// Divides by x.
constexpr std::uint32_t divide_by_x(std::uint32_t value) {
  return (value & kOne) != 0 ? (value ^ kPolynomial) << 1 | 1 : value << 1;
}

/// Table of x^(-8 * step * i), for i from 0.
template <std::size_t N>
constexpr std::array<std::uint32_t, N> inverse_powers(std::uint32_t step) {
  std::uint32_t factor = kOne;
  for (std::uint32_t i = 0; i < 8 * step; ++i) factor = divide_by_x(factor);
  std::array<std::uint32_t, N> table{};
  table[0] = kOne;
  for (std::size_t i = 1; i < N; ++i) table[i] = multiply(table[i - 1], factor);
  return table;
}

constexpr auto kByByte = inverse_powers<256>(1);
constexpr auto kBy256Bytes = inverse_powers<257>(256);

/// Returns the difference in four bytes that causes the difference `syndrome` in the CRC `bytes`
/// later, counted from the first of the four. The first byte is the lowest of the result.
std::uint32_t difference_before(std::uint32_t syndrome, std::size_t bytes) {
  return multiply(multiply(syndrome, kByByte[bytes & 255]), kBy256Bytes[bytes >> 8]);
}

/// What routers may change in a GRH, or in an IPv6 header.
void mask_grh(std::byte* grh) {
  grh[0] |= std::byte{0x0f};  // Traffic class and flow label.
  grh[1] = grh[2] = grh[3] = kOnes;
  grh[7] = kOnes;  // Hop limit.
}

}  // namespace

IcrcSeed::IcrcSeed(const IpFlow& flow)
    : is_ipv4_(flow.is_ipv4()),
      has_udp_(!flow.has_grh()),
      has_lrh_(false),
      ip_bytes_(flow.ip_header_bytes()),
      udp_bytes_(has_udp_ ? kUdpHeaderBytes : 0) {
  image_.fill(kOnes);
  std::byte* ip = &image_[kOnesBytes];
  if (!has_udp_) {
    encode(Grh{.source = flow.source, .destination = flow.destination},
           std::span<std::byte, Grh::kSize>(ip, Grh::kSize));
  } else {
    encode_ip_udp({.flow = flow}, MutableByteSpan(image_).subspan(kOnesBytes));
  }
  if (is_ipv4()) {
    ip[1] = kOnes;            // TOS.
    ip[8] = kOnes;            // Time to live.
    ip[10] = ip[11] = kOnes;  // Header checksum.
  } else {
    mask_grh(ip);
  }
  if (has_udp_) ip[ip_bytes_ + 6] = ip[ip_bytes_ + 7] = kOnes;  // UDP checksum.
}

IcrcSeed::IcrcSeed(const Lrh& header)
    : is_ipv4_(false), has_udp_(false), has_lrh_(true), ip_bytes_(0), udp_bytes_(0) {
  image_.fill(kOnes);
  encode(header, std::span(image_).first<Lrh::kSize>());
  image_[0] |= std::byte{0xf0};  // Virtual lane.
}

Icrc IcrcSeed::start(std::uint16_t udp_length, std::uint16_t ip_identification,
                     ByteSpan headers) const {
  VERBATIM_ASSERT(headers.size() >= Bth::kSize && headers.size() <= kHeadersMaxBytes);
  std::array<std::byte, kOnesBytes + kIpUdpMaxBytes + kHeadersMaxBytes> bytes;
  const std::size_t prefix = kOnesBytes + ip_bytes_ + udp_bytes_;
  std::memcpy(bytes.data(), image_.data(), prefix);
  std::byte* ip = &bytes[kOnesBytes];
  if (has_lrh_) {
    store_be(&bytes[4], static_cast<std::uint16_t>(udp_length / 4));  // Packet length.
  } else if (is_ipv4()) {
    store_be(ip + 2, static_cast<std::uint16_t>(kIpv4HeaderBytes + udp_length));
    store_be(ip + kIdentificationByte, ip_identification);
  } else {
    store_be(ip + 4, static_cast<std::uint16_t>(udp_length - kUdpHeaderBytes + udp_bytes_));
  }
  if (has_udp_) store_be(ip + ip_bytes_ + 4, udp_length);
  std::memcpy(&bytes[prefix], headers.data(), headers.size());
  bytes[prefix + kBthReservedByte] = kOnes;
  Icrc icrc(0);
  icrc.update(ByteSpan(bytes).first(prefix + headers.size()));
  return icrc;
}

std::uint32_t IcrcSeed::compute(ByteSpan packet, std::uint16_t ip_identification) const {
  const std::size_t head = std::min(packet.size(), kHeadersMaxBytes);
  const auto udp_length = static_cast<std::uint16_t>(kUdpHeaderBytes + packet.size() + kIcrcBytes);
  Icrc icrc = start(udp_length, ip_identification, packet.first(head));
  if (head < packet.size()) icrc.update(packet.subspan(head));
  return icrc.value();
}

std::optional<std::uint32_t> infiniband_icrc(ByteSpan packet) {
  const auto lrh = decode_lrh(packet);
  if (!lrh || (lrh->next != Lrh::Next::bth && lrh->next != Lrh::Next::grh)) return std::nullopt;
  const bool has_grh = lrh->next == Lrh::Next::grh;
  const std::size_t bth_at = Lrh::kSize + (has_grh ? Grh::kSize : 0);
  const std::size_t head_bytes = bth_at + Bth::kSize;
  if (packet.size() < head_bytes + kIcrcBytes) return std::nullopt;
  std::array<std::byte, Lrh::kSize + Grh::kSize + Bth::kSize> head;
  std::memcpy(head.data(), packet.data(), head_bytes);
  head[0] |= std::byte{0xf0};  // Virtual lane.
  if (has_grh) {
    // Routers change the LRH.
    std::fill_n(head.begin(), Lrh::kSize, kOnes);
    mask_grh(&head[Lrh::kSize]);
  }
  head[bth_at + kBthReservedByte] = kOnes;
  Icrc icrc(0);
  icrc.update(ByteSpan(head).first(head_bytes));
  icrc.update(packet.first(packet.size() - kIcrcBytes).subspan(head_bytes));
  return icrc.value();
}

std::optional<std::uint16_t> verify_icrc(const IcrcSeed& seed, ByteSpan packet,
                                         std::uint16_t expected_identification) {
  if (packet.size() < Bth::kSize + kIcrcBytes) return std::nullopt;
  const std::uint32_t received = load_icrc(packet.last<kIcrcBytes>());
  const ByteSpan covered = packet.first(packet.size() - kIcrcBytes);
  const std::uint32_t syndrome = seed.compute(covered, expected_identification) ^ received;
  if (syndrome == 0) return expected_identification;
  if (!seed.is_ipv4()) return std::nullopt;

  // The flags follow the identification's two bytes; of these only DF may differ.
  constexpr std::uint32_t kMayDiffer = 0x0040ffff;
  const std::size_t after = kIpv4HeaderBytes - kIdentificationByte + kUdpHeaderBytes;
  const std::uint32_t difference = difference_before(syndrome, after + covered.size());
  if ((difference & ~kMayDiffer) != 0) return std::nullopt;
  const auto low = static_cast<std::uint16_t>(difference);
  return static_cast<std::uint16_t>(expected_identification ^ std::byteswap(low));
}

}  // namespace verbatim::wire
