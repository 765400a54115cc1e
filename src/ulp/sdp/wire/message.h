#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <variant>

#include "base/bytes.h"
#include "base/types.h"

/// Messages of the Sockets Direct Protocol (IBA volume 1, annex A4), big-endian. Byte offsets are
/// here and in hello.cpp alone.
namespace verbatim::ulp::sdp {

/// Message identifier: the first byte of each message.
enum class Mid : std::uint8_t {
  hello = 0x00,
  hello_ack = 0x01,
  disconnect = 0x02,  // DisConn: the sender sends no more.
  abort = 0x03,       // AbortConn
  send_mode = 0x04,   // SendSm: what SrcAvail offers shall come in Data messages.
  write_done = 0x05,  // RdmaWrCompl
  read_done = 0x06,   // RdmaRdCompl
  mode_change = 0x07,
  source_cancel = 0x08,  // SrcAvailCancel
  sink_cancel = 0x09,    // SinkAvailCancel
  sink_cancel_ack = 0x0a,
  buffer_change = 0x0b,      // ChRcvBuf
  buffer_change_ack = 0x0c,  // ChRcvBufAck
  suspend = 0x0d,            // SuspComm
  suspend_ack = 0x0e,
  sink_available = 0xfd,    // SinkAvail
  source_available = 0xfe,  // SrcAvail
  data = 0xff,
};
/// Returns the annex's name of a message; "unknown" for others.
const char* name_of(Mid mid);

enum class WireError : std::uint8_t {
  too_short,
  unknown_message,
  wrong_length,   // The header's length is not the message's, or not that of its kind.
  wrong_version,  // Of the protocol, or of IP.
  no_adverts,     // MaxAdverts is 0.
};

/// Base Sockets Direct Header: begins each message.
///
///     byte   0     1                                   2-3       4-7      8-11   12-15
///          +-----+-----+-----------+--------+--------+---------+--------+------+---------+
///          | MID | rsvd| pipelined | urgent | urgent | buffers | length | MSeq | MSeqAck |
///          |     | (5) | (1)       | pending| present|         |        |      |         |
///          +-----+-----+-----------+--------+--------+---------+--------+------+---------+
struct Header {
  static constexpr std::size_t kSize = 16;
  Mid mid{};
  bool has_urgent = false;      // The message's last byte is urgent (OOB_PRES).
  bool urgent_pending = false;  // An urgent byte follows in a later message.
  bool wants_pipeline = false;
  std::uint16_t buffers = 0;       // Receives that the sender has posted.
  std::uint32_t length = kSize;    // Of the message, with this header.
  std::uint32_t sequence = 0;      // MSeq
  std::uint32_t acknowledged = 0;  // MSeqAck: the last message that the sender has received.
  friend bool operator==(const Header&, const Header&) = default;
};

/// SrcAvail: memory that the receiver may read. Data follows in the message: the first bytes of it.
struct SourceAvailable {
  std::uint32_t bytes = 0;
  MemoryKey key{};
  std::uint64_t address = 0;
  friend bool operator==(const SourceAvailable&, const SourceAvailable&) = default;
};
/// SinkAvail: memory that the receiver may write.
struct SinkAvailable {
  std::uint32_t bytes = 0;
  MemoryKey key{};
  std::uint64_t address = 0;
  std::uint32_t non_discards = 0;
  friend bool operator==(const SinkAvailable&, const SinkAvailable&) = default;
};
/// RdmaRdCompl and RdmaWrCompl: bytes that were moved.
struct Moved {
  std::uint32_t bytes = 0;
  friend bool operator==(const Moved&, const Moved&) = default;
};
/// ChRcvBuf and ChRcvBufAck: size of a receive, with the header.
struct BufferSize {
  std::uint32_t bytes = 0;
  friend bool operator==(const BufferSize&, const BufferSize&) = default;
};
/// ModeChange
struct Mode {
  std::uint8_t flags = 0;  // The first four bits.
  friend bool operator==(const Mode&, const Mode&) = default;
};

using Body = std::variant<std::monostate, SourceAvailable, SinkAvailable, Moved, BufferSize, Mode>;

struct Message {
  Header header;
  Body body;
  ByteSpan data;  // Of Data and SrcAvail: bytes of the stream; borrowed.
};

/// Most bytes before a message's data: the header and SinkAvail's fields.
inline constexpr std::size_t kMostHead = Header::kSize + 20;

/// Checks the length against that of the message's kind.
std::expected<Message, WireError> decode_message(ByteSpan message);
/// Writes the header and the body, and returns their bytes; the data follows. The kind's body must
/// be there. `header.length` is written as it is.
std::size_t encode(const Header& header, const Body& body, std::span<std::byte, kMostHead> out);

}  // namespace verbatim::ulp::sdp
