#include "ulp/rds/wire/header.h"

#include <algorithm>
#include <array>

namespace verbatim::ulp::rds {
namespace {

constexpr std::size_t kChecksumAt = 30, kExtensionsAt = 32;
enum Extension : std::uint8_t { kEnd = 0, kUsedKey = 2, kOffer = 3 };
/// Bytes of an extension's value, by its type. 0: unknown, so that no later one can be found.
constexpr std::array<std::uint8_t, 7> kExtensionBytes{0, 4, 4, 8, 0, 2, 4};

/// IP's: the one's complement of the one's complement sum of all 16-bit words (RFC 1071).
std::uint16_t checksum_of(ByteSpan header) {
  std::uint32_t sum = 0;
  for (std::size_t at = 0; at < Header::kSize; at += 2) sum += load_be<std::uint16_t>(&header[at]);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

void decode_extensions(ByteSpan header, Header& out) {
  for (std::size_t at = kExtensionsAt; at < Header::kSize;) {
    const auto type = std::to_integer<std::uint8_t>(header[at]);
    const std::size_t bytes = type < kExtensionBytes.size() ? kExtensionBytes[type] : 0;
    if (bytes == 0 || at + 1 + bytes > Header::kSize) return;
    const std::byte* const value = &header[at + 1];
    if (type == kUsedKey) out.used = MemoryKey{load_be<std::uint32_t>(value)};
    if (type == kOffer) {
      out.offered = {MemoryKey{load_be<std::uint32_t>(value)}, load_be<std::uint32_t>(value + 4)};
    }
    at += 1 + bytes;
  }
}

}  // namespace

const char* words_of(WireError error) {
  switch (error) {
    case WireError::too_short:
      return "a message without a header";
    case WireError::checksum:
      return "a header with a wrong checksum";
    case WireError::too_long:
      return "a message of more than 1 MiB";
    case WireError::version:
      return "another version of the protocol than 3.1 and 4.x";
  }
  return "";
}

std::expected<Header, WireError> decode_header(ByteSpan fragment) {
  if (fragment.size() < Header::kSize) return std::unexpected(WireError::too_short);
  const bool is_checked = load_be<std::uint16_t>(&fragment[kChecksumAt]) != 0;
  if (is_checked && checksum_of(fragment) != 0) return std::unexpected(WireError::checksum);
  Header header{.sequence = load_be<std::uint64_t>(&fragment[0]),
                .acknowledged = load_be<std::uint64_t>(&fragment[8]),
                .bytes = load_be<std::uint32_t>(&fragment[16]),
                .source_port = load_be<std::uint16_t>(&fragment[20]),
                .destination_port = load_be<std::uint16_t>(&fragment[22]),
                .flags = std::to_integer<std::uint8_t>(fragment[24]),
                .credit = std::to_integer<std::uint8_t>(fragment[25])};
  if (header.bytes > kMessageBytesMax) return std::unexpected(WireError::too_long);
  decode_extensions(fragment, header);
  return header;
}

void encode(const Header& header, std::span<std::byte, Header::kSize> out) {
  std::ranges::fill(out, std::byte{});
  store_be(&out[0], header.sequence);
  store_be(&out[8], header.acknowledged);
  store_be(&out[16], header.bytes);
  store_be(&out[20], header.source_port);
  store_be(&out[22], header.destination_port);
  out[24] = std::byte{header.flags};
  out[25] = std::byte{header.credit};
  std::size_t at = kExtensionsAt;
  if (header.used) {
    out[at] = std::byte{kUsedKey};
    store_be(&out[at + 1], raw(*header.used));
    at += 1 + kExtensionBytes[kUsedKey];
  }
  if (header.offered) {
    out[at] = std::byte{kOffer};
    store_be(&out[at + 1], raw(header.offered->key));
    store_be(&out[at + 5], header.offered->offset);
  }
  store_be(&out[kChecksumAt], checksum_of(out));
}

}  // namespace verbatim::ulp::rds
