#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "ulp/engine/meeting.h"
#include "ulp/lnet/wire/byte_order.h"
#include "ulp/lnet/wire/lnet_header.h"

/// Messages of o2iblnd, LNet's driver over RDMA (protocol version 0x12): each one SEND of at most
/// 4,096 bytes. The first two kinds are private data of the connection manager.
namespace verbatim::ulp::lnet {

inline constexpr std::uint16_t kPort = 987;
inline constexpr std::size_t kMessageBytes = 4096;

enum class MessageKind : std::uint8_t {
  connect = 0xc0,
  accept = 0xc1,
  noop = 0xd0,       // Credits only.
  immediate = 0xd1,  // A message of LNet with its payload.
  put_request = 0xd2,
  put_refused = 0xd3,
  put_accepted = 0xd4,  // Where the payload goes; whoever asked writes it there.
  put_done = 0xd5,
  get_request = 0xd6,  // Where the payload goes; whoever is asked writes it there.
  get_done = 0xd7,
};

/// What both ends can take; an answer may lower them.
struct ConnectionSizes {
  std::uint16_t depth = 8;  // Messages in flight, and credits.
  std::uint16_t fragments = 257;
  std::uint32_t message_bytes = kMessageBytes;
  friend bool operator==(const ConnectionSizes&, const ConnectionSizes&) = default;
};

/// A stamp is a node's own from start to end: another one says that it has started anew. Zero: not
/// known yet.
struct Ends {
  Nid source;
  std::uint64_t source_stamp = 0;
  Nid destination;
  std::uint64_t destination_stamp = 0;
  friend bool operator==(const Ends&, const Ends&) = default;
};

struct Fragment {
  std::uint32_t bytes = 0;
  std::uint64_t address = 0;
  friend bool operator==(const Fragment&, const Fragment&) = default;
};
/// Memory of the peer's, as it describes it; borrows from the message.
struct Fragments {
  std::uint32_t key = 0;
  Order order = Order::little;
  ByteSpan bytes;
  std::size_t size() const { return bytes.size() / 12; }
  Fragment operator[](std::size_t i) const {
    return {load<std::uint32_t>(order, bytes.data() + 12 * i),
            load<std::uint64_t>(order, bytes.data() + 12 * i + 4)};
  }
};

/// A message; what its kind does not have is empty. Spans borrow from the bytes it came in.
///
///     byte 0-3    4-5       6      7         8-11    12-15      16-47   48...
///         +-------+---------+------+---------+-------+----------+-------+---------------------+
///         | magic | version | kind | credits | bytes | checksum | ends  | of the kind         |
///         +-------+---------+------+---------+-------+----------+-------+---------------------+
///     connect, accept   48 depth 2  50 fragments 2  52 message bytes 4
///     immediate         48 header 72  120 payload
///     put_request       48 header 72  120 cookie 8
///     put_accepted      48 source's cookie 8  56 sink's 8  64 key 4  68 count 4  72 fragments
///     get_request       48 header 72  120 cookie 8  128 key 4  132 count 4  136 fragments
///     refused, done     48 cookie 8  56 status 4
struct Message {
  static constexpr std::size_t kHeaderSize = 48;
  static constexpr std::size_t kPayloadAt = kHeaderSize + LnetHeader::kSize;
  static constexpr std::size_t kPayloadMax = kMessageBytes - kPayloadAt;
  MessageKind kind = MessageKind::noop;
  std::uint8_t credits = 0;  // That the receiver gets back.
  Ends ends;
  ConnectionSizes sizes;
  LnetHeader header;
  ByteSpan payload;
  std::uint64_t cookie = 0;       // Of the transfer: its source's, or its requester's.
  std::uint64_t sink_cookie = 0;  // put_accepted: comes back in put_done.
  Fragments fragments;            // As decoded.
  std::int32_t status = 0;        // Bytes, or a negative errno value.
};

enum class MessageFault : std::uint8_t { too_short, magic, version, kind, length, checksum };
const char* text_of(MessageFault fault);
std::expected<Message, MessageFault> decode_message(ByteSpan bytes);

/// Writes the message, little-endian; its memory is one fragment. Returns its bytes. The payload is
/// at most `kPayloadMax`.
std::size_t encode(const Message& message, std::span<std::byte, kMessageBytes> out,
                   std::uint32_t key = 0, const Fragment& memory = {});

/// Why a request for a connection is rejected.
enum class Why : std::uint8_t {
  race = 1,  // Both ask at once, and the other request is answered.
  no_resources = 2,
  fatal = 3,
  version = 4,
  stale = 5,      // One side has started anew: ask again.
  fragments = 6,  // Ask again with these sizes.
  depth = 7,
  no_service = 8,
  too_early = 9,
};
const char* text_of(Why why);
struct Refusal {
  static constexpr std::size_t kSize = 24;
  Why why = Why::fatal;
  std::uint64_t stamp = 0;
  ConnectionSizes sizes;
  friend bool operator==(const Refusal&, const Refusal&) = default;
};
PrivateData encode(const Refusal& refusal);
std::optional<Refusal> decode_refusal(ByteSpan bytes);

}  // namespace verbatim::ulp::lnet
