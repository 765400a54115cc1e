#include "ulp/lnet/wire/message.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace verbatim::ulp::lnet {
namespace {

constexpr std::uint32_t kMagic = 0x0be91b91;
constexpr std::uint16_t kVersion = 0x12;
constexpr std::size_t kFragmentSize = 12;

std::optional<Order> order_of(const std::byte* magic) {
  if (load_le<std::uint32_t>(magic) == kMagic) return Order::little;
  if (load_be<std::uint32_t>(magic) == kMagic) return Order::big;
  return std::nullopt;
}

/// Over the whole message, with the field itself as zero; a zero becomes one.
std::uint32_t checksum(ByteSpan bytes) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto value = i >= 12 && i < 16 ? std::int8_t{0} : std::to_integer<std::int8_t>(bytes[i]);
    sum = std::rotl(sum, 1) + static_cast<std::uint32_t>(value);
  }
  return sum == 0 ? 1 : sum;
}

/// What a kind has at least, after the 48 bytes.
std::optional<std::size_t> body_bytes(MessageKind kind) {
  switch (kind) {
    case MessageKind::connect:
    case MessageKind::accept:
      return 8;
    case MessageKind::noop:
      return 0;
    case MessageKind::immediate:
      return LnetHeader::kSize;
    case MessageKind::put_request:
      return LnetHeader::kSize + 8;
    case MessageKind::put_accepted:
      return 24;
    case MessageKind::get_request:
      return LnetHeader::kSize + 16;
    case MessageKind::put_refused:
    case MessageKind::put_done:
    case MessageKind::get_done:
      return 12;
  }
  return std::nullopt;
}

bool decode_fragments(Order order, ByteSpan bytes, Fragments& fragments) {
  const std::uint64_t count = load<std::uint32_t>(order, bytes.data() + 4);
  if (count * kFragmentSize > bytes.size() - 8) return false;
  fragments = {load<std::uint32_t>(order, bytes.data()), order,
               bytes.subspan(8, static_cast<std::size_t>(count) * kFragmentSize)};
  return true;
}

bool decode_body(Order order, ByteSpan body, Message& message) {
  const auto u64 = [&](std::size_t at) { return load<std::uint64_t>(order, body.data() + at); };
  const auto u32 = [&](std::size_t at) { return load<std::uint32_t>(order, body.data() + at); };
  const auto u16 = [&](std::size_t at) { return load<std::uint16_t>(order, body.data() + at); };
  const auto header = [&] { message.header = decode_header(body.first<LnetHeader::kSize>()); };
  constexpr std::size_t kAfter = LnetHeader::kSize;
  switch (message.kind) {
    case MessageKind::connect:
    case MessageKind::accept:
      message.sizes = {u16(0), u16(2), u32(4)};
      return true;
    case MessageKind::noop:
      return true;
    case MessageKind::immediate:
      header();
      message.payload = body.subspan(kAfter);
      return message.header.payload_bytes <= message.payload.size();
    case MessageKind::put_request:
      header();
      message.cookie = u64(kAfter);
      return true;
    case MessageKind::put_accepted:
      message.cookie = u64(0);
      message.sink_cookie = u64(8);
      return decode_fragments(order, body.subspan(16), message.fragments);
    case MessageKind::get_request:
      header();
      message.cookie = u64(kAfter);
      return decode_fragments(order, body.subspan(kAfter + 8), message.fragments);
    case MessageKind::put_refused:
    case MessageKind::put_done:
    case MessageKind::get_done:
      message.cookie = u64(0);
      message.status = static_cast<std::int32_t>(u32(8));
      return true;
  }
  return false;
}

/// Returns the bytes of the body.
std::size_t encode_body(const Message& message, std::byte* body, std::uint32_t key,
                        const Fragment& memory) {
  constexpr std::size_t kAfter = LnetHeader::kSize;
  const auto header = [&] {
    encode(message.header, std::span<std::byte, LnetHeader::kSize>(body, LnetHeader::kSize));
  };
  const auto fragments = [&](std::size_t at) {
    store_le(body + at, key);
    store_le(body + at + 4, std::uint32_t{1});
    store_le(body + at + 8, memory.bytes);
    store_le(body + at + 12, memory.address);
    return at + 8 + kFragmentSize;
  };
  switch (message.kind) {
    case MessageKind::connect:
    case MessageKind::accept:
      store_le(body, message.sizes.depth);
      store_le(body + 2, message.sizes.fragments);
      store_le(body + 4, message.sizes.message_bytes);
      return 8;
    case MessageKind::noop:
      return 0;
    case MessageKind::immediate:
      header();
      std::ranges::copy(message.payload, body + kAfter);
      return kAfter + message.payload.size();
    case MessageKind::put_request:
      header();
      store_le(body + kAfter, message.cookie);
      return kAfter + 8;
    case MessageKind::put_accepted:
      store_le(body, message.cookie);
      store_le(body + 8, message.sink_cookie);
      return fragments(16);
    case MessageKind::get_request:
      header();
      store_le(body + kAfter, message.cookie);
      return fragments(kAfter + 8);
    case MessageKind::put_refused:
    case MessageKind::put_done:
    case MessageKind::get_done:
      store_le(body, message.cookie);
      store_le(body + 8, static_cast<std::uint32_t>(message.status));
      return 12;
  }
  return 0;
}

}  // namespace

const char* text_of(MessageFault fault) {
  switch (fault) {
    case MessageFault::too_short:
      return "a message is too short";
    case MessageFault::magic:
      return "a message has not LNet's magic number";
    case MessageFault::version:
      return "a message is of another version than 0x12";
    case MessageFault::kind:
      return "a message is of no kind that we know";
    case MessageFault::length:
      return "a message's length is wrong";
    case MessageFault::checksum:
      return "a message's checksum is wrong";
  }
  return "";
}

std::expected<Message, MessageFault> decode_message(ByteSpan bytes) {
  if (bytes.size() < Message::kHeaderSize) return std::unexpected(MessageFault::too_short);
  const auto order = order_of(bytes.data());
  if (!order) return std::unexpected(MessageFault::magic);
  if (load<std::uint16_t>(*order, bytes.data() + 4) != kVersion)
    return std::unexpected(MessageFault::version);
  Message message{.kind = MessageKind{std::to_integer<std::uint8_t>(bytes[6])},
                  .credits = std::to_integer<std::uint8_t>(bytes[7])};
  const auto least = body_bytes(message.kind);
  if (!least) return std::unexpected(MessageFault::kind);
  // In private data zeros may follow.
  const std::size_t length = load<std::uint32_t>(*order, bytes.data() + 8);
  if (length > bytes.size() || length < Message::kHeaderSize + *least)
    return std::unexpected(MessageFault::length);
  bytes = bytes.first(length);
  const auto sum = load<std::uint32_t>(*order, bytes.data() + 12);
  if (sum != 0 && sum != checksum(bytes)) return std::unexpected(MessageFault::checksum);
  const auto u64 = [&](std::size_t at) { return load<std::uint64_t>(*order, bytes.data() + at); };
  message.ends = {Nid{u64(16)}, u64(24), Nid{u64(32)}, u64(40)};
  if (!decode_body(*order, bytes.subspan(Message::kHeaderSize), message))
    return std::unexpected(MessageFault::length);
  return message;
}

std::size_t encode(const Message& message, std::span<std::byte, kMessageBytes> out,
                   std::uint32_t key, const Fragment& memory) {
  std::byte* const at = out.data();
  const std::size_t length =
      Message::kHeaderSize + encode_body(message, at + Message::kHeaderSize, key, memory);
  store_le(at, kMagic);
  store_le(at + 4, kVersion);
  at[6] = static_cast<std::byte>(message.kind);
  at[7] = std::byte{message.credits};
  store_le(at + 8, static_cast<std::uint32_t>(length));
  store_le(at + 12, std::uint32_t{0});
  store_le(at + 16, message.ends.source.value);
  store_le(at + 24, message.ends.source_stamp);
  store_le(at + 32, message.ends.destination.value);
  store_le(at + 40, message.ends.destination_stamp);
  return length;
}

const char* text_of(Why why) {
  switch (why) {
    case Why::race:
      return "both ask at once";
    case Why::no_resources:
      return "it has no room";
    case Why::version:
      return "it speaks another version";
    case Why::stale:
      return "one side has started anew";
    case Why::fragments:
      return "it takes fewer fragments";
    case Why::depth:
      return "it takes fewer messages in flight (peer_credits)";
    case Why::no_service:
      return "no LNet listens there";
    case Why::too_early:
      return "it is not ready yet";
    default:
      return "it refuses for good";
  }
}

PrivateData encode(const Refusal& refusal) {
  std::array<std::byte, Refusal::kSize> bytes{};
  store_le(bytes.data(), kMagic);
  store_le(bytes.data() + 4, kVersion);
  bytes[6] = static_cast<std::byte>(refusal.why);
  store_le(bytes.data() + 8, refusal.stamp);
  store_le(bytes.data() + 16, refusal.sizes.depth);
  store_le(bytes.data() + 18, refusal.sizes.fragments);
  store_le(bytes.data() + 20, refusal.sizes.message_bytes);
  return to_private_data(bytes);
}

std::optional<Refusal> decode_refusal(ByteSpan bytes) {
  if (bytes.size() < Refusal::kSize) return std::nullopt;
  const auto order = order_of(bytes.data());
  if (!order) return std::nullopt;
  const auto at = bytes.data();
  return Refusal{
      .why = Why{std::to_integer<std::uint8_t>(bytes[6])},
      .stamp = load<std::uint64_t>(*order, at + 8),
      .sizes = {load<std::uint16_t>(*order, at + 16), load<std::uint16_t>(*order, at + 18),
                load<std::uint32_t>(*order, at + 20)}};
}

}  // namespace verbatim::ulp::lnet
