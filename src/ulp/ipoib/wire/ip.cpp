#include "ulp/ipoib/wire/ip.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace verbatim::ulp::ipoib {
namespace {

constexpr std::uint8_t kHopByHop = 0, kFragment = 44;

template <std::size_t N>
std::array<std::uint8_t, N> array_at(const std::byte* at) {
  std::array<std::uint8_t, N> bytes;
  std::memcpy(bytes.data(), at, N);
  return bytes;
}

std::uint8_t byte_at(ByteSpan packet, std::size_t at) {
  return std::to_integer<std::uint8_t>(packet[at]);
}

std::optional<IpPacket> decode_ipv4(ByteSpan packet) {
  const std::size_t header = std::size_t{byte_at(packet, 0) & 15u} * 4;
  const std::size_t total = load_be<std::uint16_t>(&packet[2]);
  if (header < kIpv4Bytes || total < header || total > packet.size()) return std::nullopt;
  constexpr std::uint16_t kDoNotFragment = 0x4000, kOffset = 0x1fff;
  const auto fragment = load_be<std::uint16_t>(&packet[6]);
  return IpPacket{.type = EtherType::ipv4,
                  .source = SocketAddress::ipv4(array_at<4>(&packet[12])),
                  .destination = SocketAddress::ipv4(array_at<4>(&packet[16])),
                  .protocol = byte_at(packet, 9),
                  .hop_limit = byte_at(packet, 8),
                  .is_fragment = (fragment & kOffset) != 0,
                  .may_be_fragmented = (fragment & kDoNotFragment) == 0,
                  .payload = packet.first(total).subspan(header)};
}

std::optional<IpPacket> decode_ipv6(ByteSpan packet) {
  const std::size_t length = load_be<std::uint16_t>(&packet[4]);
  if (kIpv6Bytes + length > packet.size()) return std::nullopt;
  IpPacket found{.type = EtherType::ipv6,
                 .source = SocketAddress::ipv6(array_at<16>(&packet[8])),
                 .destination = SocketAddress::ipv6(array_at<16>(&packet[24])),
                 .protocol = byte_at(packet, 6),
                 .hop_limit = byte_at(packet, 7),
                 .payload = packet.subspan(kIpv6Bytes, length)};
  if (found.protocol == kHopByHop) {
    if (found.payload.size() < 8) return std::nullopt;
    const std::size_t bytes = 8 + std::size_t{byte_at(found.payload, 1)} * 8;
    if (bytes > found.payload.size()) return std::nullopt;
    found.protocol = byte_at(found.payload, 0);
    found.payload = found.payload.subspan(bytes);
  }
  found.is_fragment = found.protocol == kFragment;
  return found;
}

}  // namespace

std::optional<IpPacket> decode_ip(ByteSpan packet) {
  if (packet.empty()) return std::nullopt;
  const unsigned version = byte_at(packet, 0) >> 4;
  if (version == 4 && packet.size() >= kIpv4Bytes) return decode_ipv4(packet);
  if (version == 6 && packet.size() >= kIpv6Bytes) return decode_ipv6(packet);
  return std::nullopt;
}

std::optional<SocketAddress> destination_of(ByteSpan packet) {
  constexpr std::size_t kIpv4At = 16, kIpv6At = 24;
  if (packet.empty()) return std::nullopt;
  const unsigned version = byte_at(packet, 0) >> 4;
  if (version == 4 && packet.size() >= kIpv4Bytes)
    return SocketAddress::ipv4(array_at<4>(&packet[kIpv4At]));
  if (version == 6 && packet.size() >= kIpv6Bytes)
    return SocketAddress::ipv6(array_at<16>(&packet[kIpv6At]));
  return std::nullopt;
}

namespace {

constexpr std::uint64_t kLowHalf = 0xffffffff;

/// In the machine's byte order, and halves of words of eight bytes apart: their sums do not
/// overflow, so all carries are added at the end, where the bytes are swapped (RFC 1071, section
/// 2). Of as many whole words as there are from `at` on.
template <typename Word>
std::uint64_t sum_of_words(ByteSpan bytes, std::size_t& at) {
  std::uint64_t sum = 0;
  for (; at + sizeof(Word) <= bytes.size(); at += sizeof(Word)) {
    Word word;
    std::memcpy(&word, &bytes[at], sizeof word);
    sum += (word & kLowHalf) + (std::uint64_t{word} >> 32);
  }
  return sum;
}

/// The same of 32 bytes at a time.
std::uint64_t sum_of_blocks(ByteSpan bytes, std::size_t& at) {
  using Words = std::uint64_t __attribute__((vector_size(16)));
  Words low{}, high{};
  for (; at + 2 * sizeof(Words) <= bytes.size(); at += 2 * sizeof(Words)) {
    std::array<Words, 2> words;
    std::memcpy(words.data(), &bytes[at], sizeof words);
    low += (words[0] & kLowHalf) + (words[1] & kLowHalf);
    high += (words[0] >> 32) + (words[1] >> 32);
  }
  return low[0] + low[1] + high[0] + high[1];
}

}  // namespace

/// Most calls are for headers: what is left of a block is added without a loop over bytes.
std::uint32_t sum_of(ByteSpan bytes, std::uint32_t sum) {
  std::size_t at = 0;
  std::uint64_t total = sum_of_blocks(bytes, at);
  total += sum_of_words<std::uint64_t>(bytes, at);
  total += sum_of_words<std::uint32_t>(bytes, at);
  total += sum_of_words<std::uint16_t>(bytes, at);
  std::uint16_t last = 0;
  if (at < bytes.size()) std::memcpy(&last, &bytes[at], 1);
  total += last;
  while (total >> 16 != 0) total = (total & 0xffff) + (total >> 16);
  total = to_big_endian(static_cast<std::uint16_t>(total)) + std::uint64_t{sum};
  while (total >> 16 != 0) total = (total & 0xffff) + (total >> 16);
  return static_cast<std::uint32_t>(total);
}

std::uint16_t checksum_of(std::uint32_t sum) {
  while (sum >> 16 != 0) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

std::uint32_t pseudo_sum(const SocketAddress& source, const SocketAddress& destination,
                         std::uint8_t protocol, std::size_t bytes) {
  std::uint32_t sum = protocol + static_cast<std::uint32_t>(bytes >> 16) +
                      static_cast<std::uint32_t>(bytes & 0xffff);
  for (const SocketAddress* const one : {&source, &destination}) {
    const auto ipv4 = one->ipv4_bytes();
    const auto ipv6 = one->ipv6_bytes();
    sum = sum_of(one->is_ipv4() ? ByteSpan(std::as_bytes(std::span(ipv4)))
                                : ByteSpan(std::as_bytes(std::span(ipv6))),
                 sum);
  }
  return sum;
}

}  // namespace verbatim::ulp::ipoib
