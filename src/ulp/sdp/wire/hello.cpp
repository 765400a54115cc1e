#include "ulp/sdp/wire/hello.h"

#include <algorithm>

namespace verbatim::ulp::sdp {
namespace {

constexpr std::uint8_t kVersion = 0x22;  // Major 2, minor 2.

/// Checks what Hello and HelloAck have in common.
std::expected<Header, WireError> decode_common(ByteSpan data, Mid mid, std::size_t size) {
  if (data.size() < size) return std::unexpected(WireError::too_short);
  const auto message = decode_message(data.first(size));
  if (!message) return std::unexpected(message.error());
  if (message->header.mid != mid) return std::unexpected(WireError::unknown_message);
  const unsigned ip_version = std::to_integer<unsigned>(data[17]) >> 4;
  const bool is_known = std::to_integer<unsigned>(data[16]) >> 4 == kVersion >> 4;
  if (!is_known || (ip_version != 4 && ip_version != 6)) {
    return std::unexpected(WireError::wrong_version);
  }
  if (data[19] == std::byte{0}) return std::unexpected(WireError::no_adverts);
  return message->header;
}

void encode_common(Mid mid, std::uint16_t buffers, bool is_ipv6, std::uint8_t capabilities,
                   std::uint8_t adverts_max, std::span<std::byte> out) {
  std::ranges::fill(out, std::byte{});
  encode({.mid = mid, .buffers = buffers, .length = static_cast<std::uint32_t>(out.size())}, {},
         out.first<kMostHead>());
  out[16] = std::byte{kVersion};
  out[17] = static_cast<std::byte>((is_ipv6 ? 6 : 4) << 4 | (capabilities & 15));
  out[19] = std::byte{adverts_max};
}

}  // namespace

std::expected<Hello, WireError> decode_hello(ByteSpan data) {
  const auto header = decode_common(data, Mid::hello, Hello::kSize);
  if (!header) return std::unexpected(header.error());
  Hello hello{.buffers = header->buffers,
              .is_ipv6 = std::to_integer<unsigned>(data[17]) >> 4 == 6,
              .capabilities = static_cast<std::uint8_t>(std::to_integer<unsigned>(data[17]) & 15),
              .adverts_max = std::to_integer<std::uint8_t>(data[19]),
              .wanted_bytes = load_be<std::uint32_t>(&data[20]),
              .own_bytes = load_be<std::uint32_t>(&data[24]),
              .source_port = load_be<std::uint16_t>(&data[28])};
  std::ranges::copy(data.subspan(32, 16), hello.source.begin());
  std::ranges::copy(data.subspan(48, 16), hello.destination.begin());
  return hello;
}

void encode(const Hello& hello, std::span<std::byte, Hello::kSize> out) {
  encode_common(Mid::hello, hello.buffers, hello.is_ipv6, hello.capabilities, hello.adverts_max,
                out);
  store_be(&out[20], hello.wanted_bytes);
  store_be(&out[24], hello.own_bytes);
  store_be(&out[28], hello.source_port);
  std::ranges::copy(hello.source, out.begin() + 32);
  std::ranges::copy(hello.destination, out.begin() + 48);
}

std::expected<HelloAck, WireError> decode_hello_ack(ByteSpan data) {
  const auto header = decode_common(data, Mid::hello_ack, HelloAck::kSize);
  if (!header) return std::unexpected(header.error());
  return HelloAck{
      .buffers = header->buffers,
      .is_ipv6 = std::to_integer<unsigned>(data[17]) >> 4 == 6,
      .capabilities = static_cast<std::uint8_t>(std::to_integer<unsigned>(data[17]) & 15),
      .adverts_max = std::to_integer<std::uint8_t>(data[19]),
      .own_bytes = load_be<std::uint32_t>(&data[20])};
}

void encode(const HelloAck& ack, std::span<std::byte, HelloAck::kSize> out) {
  encode_common(Mid::hello_ack, ack.buffers, ack.is_ipv6, ack.capabilities, ack.adverts_max, out);
  store_be(&out[20], ack.own_bytes);
}

}  // namespace verbatim::ulp::sdp
