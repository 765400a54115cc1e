#include "fabric/trunk/datagram.h"

#include <algorithm>

#include "base/assert.h"
#include "base/overloaded.h"
#include "wire/crc32c.h"

namespace verbatim::fabric::trunk {
namespace {

constexpr std::uint32_t kMagic = 0x5662546b;  // "VbTk".
enum class Kind : std::uint8_t { hello = 1, bye, status, packet, management };

constexpr std::size_t kHelloBytes = 8 + 8 + 1 + 2 + 4;
constexpr std::size_t kStatusBytes = 4 + 4 + 4 * kDataLanes;
constexpr std::size_t kPacketHeaderBytes = 4;
static_assert(kHeaderBytes + kHelloBytes + kCrcBytes <= kControlBytesMax);
static_assert(kHeaderBytes + kStatusBytes + kCrcBytes <= kControlBytesMax);
constexpr std::uint32_t kGap = 1;

std::uint32_t crc_of(ByteSpan bytes) {
  wire::Crc32c crc;
  crc.update(bytes);
  return crc.value();
}

std::uint8_t byte_at(const std::byte* at) { return std::to_integer<std::uint8_t>(*at); }

std::optional<Hello> decode_hello(ByteSpan body) {
  if (body.size() != kHelloBytes) return std::nullopt;
  const std::byte* const at = body.data();
  const Hello hello{.from = load_be<std::uint64_t>(at),
                    .node_guid = load_be<std::uint64_t>(at + 8),
                    .port = byte_at(at + 16),
                    .offer = {.width = static_cast<LinkWidth>(byte_at(at + 17)),
                              .speed = static_cast<LinkSpeed>(byte_at(at + 18)),
                              .width_enabled = byte_at(at + 19),
                              .speed_enabled = byte_at(at + 20),
                              .speed_extended_enabled = byte_at(at + 21),
                              .speed_extended2_enabled = byte_at(at + 22)}};
  const bool is_sound = hello.from != 0 && lanes_of(hello.offer.width) != 0 &&
                        static_cast<std::size_t>(hello.offer.speed) < kLinkSpeeds.size();
  return is_sound ? std::optional(hello) : std::nullopt;
}

void encode_body(const Hello& hello, std::byte* out) {
  store_be(out, hello.from);
  store_be(out + 8, hello.node_guid);
  const std::array<std::uint8_t, 7> bytes{hello.port,
                                          static_cast<std::uint8_t>(hello.offer.width),
                                          static_cast<std::uint8_t>(hello.offer.speed),
                                          hello.offer.width_enabled,
                                          hello.offer.speed_enabled,
                                          hello.offer.speed_extended_enabled,
                                          hello.offer.speed_extended2_enabled};
  std::ranges::copy(std::as_bytes(std::span(bytes)), out + 16);
}

std::optional<Status> decode_status(ByteSpan body) {
  if (body.size() != kStatusBytes) return std::nullopt;
  Status status{.next = load_be<std::uint32_t>(body.data()),
                .is_gap = (load_be<std::uint32_t>(body.data() + 4) & kGap) != 0};
  for (std::size_t lane = 0; lane < kDataLanes; ++lane) {
    status.limits[lane] = load_be<std::uint32_t>(body.data() + 8 + 4 * lane);
  }
  return status;
}

void encode_body(const Status& status, std::byte* out) {
  store_be(out, status.next);
  store_be(out + 4, status.is_gap ? kGap : 0u);
  for (std::size_t lane = 0; lane < kDataLanes; ++lane) {
    store_be(out + 8 + 4 * lane, status.limits[lane]);
  }
}

std::optional<Packet> decode_packet(ByteSpan body, bool is_management) {
  if (body.size() <= kPacketHeaderBytes || body.size() > kPacketHeaderBytes + kPacketBytesMax) {
    return std::nullopt;
  }
  return Packet{.sequence = load_be<std::uint32_t>(body.data()),
                .is_management = is_management,
                .bytes = body.subspan(kPacketHeaderBytes)};
}

void encode_body(const Packet& packet, std::byte* out) {
  VERBATIM_ASSERT(!packet.bytes.empty() && packet.bytes.size() <= kPacketBytesMax);
  store_be(out, packet.sequence);
  std::ranges::copy(packet.bytes, out + kPacketHeaderBytes);
}

struct Form {
  Kind kind;
  std::size_t bytes;
};
Form form_of(const Datagram& datagram) {
  return std::visit(Overloaded{[](const Hello&) { return Form{Kind::hello, kHelloBytes}; },
                               [](const Bye&) { return Form{Kind::bye, 0}; },
                               [](const Status&) { return Form{Kind::status, kStatusBytes}; },
                               [](const Packet& packet) {
                                 return Form{packet.is_management ? Kind::management : Kind::packet,
                                             kPacketHeaderBytes + packet.bytes.size()};
                               }},
                    datagram.body);
}

template <typename Body>
std::optional<Datagram> with(std::uint64_t to, const std::optional<Body>& body) {
  if (!body) return std::nullopt;
  return Datagram{.to = to, .body = *body};
}

}  // namespace

std::optional<Datagram> decode(ByteSpan bytes) {
  if (bytes.size() < kHeaderBytes + kCrcBytes || bytes.size() > kDatagramBytesMax) {
    return std::nullopt;
  }
  const ByteSpan covered = bytes.first(bytes.size() - kCrcBytes);
  if (load_be<std::uint32_t>(bytes.data()) != kMagic || byte_at(&bytes[4]) != Datagram::kVersion ||
      load_be<std::uint32_t>(bytes.data() + covered.size()) != crc_of(covered)) {
    return std::nullopt;
  }
  const auto to = load_be<std::uint64_t>(bytes.data() + 8);
  const ByteSpan body = covered.subspan(kHeaderBytes);
  switch (static_cast<Kind>(byte_at(&bytes[5]))) {
    case Kind::hello:
      return with(to, decode_hello(body));
    case Kind::bye:
      return with(to, body.empty() ? std::optional(Bye{}) : std::nullopt);
    case Kind::status:
      return with(to, decode_status(body));
    case Kind::packet:
      return with(to, decode_packet(body, false));
    case Kind::management:
      return with(to, decode_packet(body, true));
  }
  return std::nullopt;
}

std::size_t encode(const Datagram& datagram, MutableByteSpan out) {
  const auto [kind, body_bytes] = form_of(datagram);
  const std::size_t covered = kHeaderBytes + body_bytes;
  store_be(out.data(), kMagic);
  const std::array<std::uint8_t, 4> middle{Datagram::kVersion, static_cast<std::uint8_t>(kind), 0,
                                           0};
  std::ranges::copy(std::as_bytes(std::span(middle)), out.begin() + 4);
  store_be(out.data() + 8, datagram.to);
  std::byte* const body = out.data() + kHeaderBytes;
  std::visit(Overloaded{[](const Bye&) {}, [body](const auto& value) { encode_body(value, body); }},
             datagram.body);
  store_be(out.data() + covered, crc_of(out.first(covered)));
  return covered + kCrcBytes;
}

}  // namespace verbatim::fabric::trunk
