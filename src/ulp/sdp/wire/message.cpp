#include "ulp/sdp/wire/message.h"

#include <algorithm>

#include "base/overloaded.h"

namespace verbatim::ulp::sdp {
namespace {

constexpr std::uint8_t kUrgentPresent = 1, kUrgentPending = 2, kPipelined = 4;

/// What follows the header.
enum class Layout : std::uint8_t { none, source, sink, moved, size, mode };

struct Kind {
  Mid mid;
  const char* name;
  Layout layout;
  bool has_data;  // Bytes of the stream follow.
};
constexpr std::array kKinds = {
    Kind{Mid::hello, "Hello", Layout::none, true},
    Kind{Mid::hello_ack, "HelloAck", Layout::none, true},
    Kind{Mid::disconnect, "DisConn", Layout::none, false},
    Kind{Mid::abort, "AbortConn", Layout::none, false},
    Kind{Mid::send_mode, "SendSm", Layout::none, false},
    Kind{Mid::write_done, "RdmaWrCompl", Layout::moved, false},
    Kind{Mid::read_done, "RdmaRdCompl", Layout::moved, false},
    Kind{Mid::mode_change, "ModeChange", Layout::mode, false},
    Kind{Mid::source_cancel, "SrcAvailCancel", Layout::none, false},
    Kind{Mid::sink_cancel, "SinkAvailCancel", Layout::none, false},
    Kind{Mid::sink_cancel_ack, "SinkCancelAck", Layout::none, false},
    Kind{Mid::buffer_change, "ChRcvBuf", Layout::size, false},
    Kind{Mid::buffer_change_ack, "ChRcvBufAck", Layout::size, false},
    Kind{Mid::suspend, "SuspComm", Layout::none, true},  // A service id, which nobody reads.
    Kind{Mid::suspend_ack, "SuspCommAck", Layout::none, false},
    Kind{Mid::sink_available, "SinkAvail", Layout::sink, false},
    Kind{Mid::source_available, "SrcAvail", Layout::source, true},
    Kind{Mid::data, "Data", Layout::none, true},
};

const Kind* kind_of(Mid mid) {
  const auto* const found = std::ranges::find(kKinds, mid, &Kind::mid);
  return found == kKinds.end() ? nullptr : found;
}

constexpr std::size_t bytes_of(Layout layout) {
  switch (layout) {
    case Layout::none:
      return 0;
    case Layout::source:
      return 16;
    case Layout::sink:
      return 20;
    case Layout::moved:
    case Layout::size:
    case Layout::mode:
      return 4;
  }
  return 0;
}

Header decode_header(const std::byte* at) {
  const auto flags = std::to_integer<std::uint8_t>(at[1]);
  return {.mid = static_cast<Mid>(at[0]),
          .has_urgent = (flags & kUrgentPresent) != 0,
          .urgent_pending = (flags & kUrgentPending) != 0,
          .wants_pipeline = (flags & kPipelined) != 0,
          .buffers = load_be<std::uint16_t>(at + 2),
          .length = load_be<std::uint32_t>(at + 4),
          .sequence = load_be<std::uint32_t>(at + 8),
          .acknowledged = load_be<std::uint32_t>(at + 12)};
}

Body decode_body(Layout layout, const std::byte* at) {
  switch (layout) {
    case Layout::none:
      return {};
    case Layout::source:
      return SourceAvailable{.bytes = load_be<std::uint32_t>(at),
                             .key = MemoryKey{load_be<std::uint32_t>(at + 4)},
                             .address = load_be<std::uint64_t>(at + 8)};
    case Layout::sink:
      return SinkAvailable{.bytes = load_be<std::uint32_t>(at),
                           .key = MemoryKey{load_be<std::uint32_t>(at + 4)},
                           .address = load_be<std::uint64_t>(at + 8),
                           .non_discards = load_be<std::uint32_t>(at + 16)};
    case Layout::moved:
      return Moved{load_be<std::uint32_t>(at)};
    case Layout::size:
      return BufferSize{load_be<std::uint32_t>(at)};
    case Layout::mode:
      return Mode{static_cast<std::uint8_t>(std::to_integer<unsigned>(at[0]) >> 4)};
  }
  return {};
}

std::size_t encode_body(const Body& body, std::byte* at) {
  return std::visit(Overloaded{[](std::monostate) { return std::size_t{0}; },
                               [at](const SourceAvailable& it) {
                                 store_be(at, it.bytes);
                                 store_be(at + 4, raw(it.key));
                                 store_be(at + 8, it.address);
                                 return bytes_of(Layout::source);
                               },
                               [at](const SinkAvailable& it) {
                                 store_be(at, it.bytes);
                                 store_be(at + 4, raw(it.key));
                                 store_be(at + 8, it.address);
                                 store_be(at + 16, it.non_discards);
                                 return bytes_of(Layout::sink);
                               },
                               [at](const Moved& it) {
                                 store_be(at, it.bytes);
                                 return bytes_of(Layout::moved);
                               },
                               [at](const BufferSize& it) {
                                 store_be(at, it.bytes);
                                 return bytes_of(Layout::size);
                               },
                               [at](const Mode& it) {
                                 store_be(at, std::uint32_t{it.flags} << 28);
                                 return bytes_of(Layout::mode);
                               }},
                    body);
}

}  // namespace

const char* name_of(Mid mid) {
  const Kind* const kind = kind_of(mid);
  return kind == nullptr ? "unknown" : kind->name;
}

std::expected<Message, WireError> decode_message(ByteSpan message) {
  if (message.size() < Header::kSize) return std::unexpected(WireError::too_short);
  const Header header = decode_header(message.data());
  const Kind* const kind = kind_of(header.mid);
  if (kind == nullptr) return std::unexpected(WireError::unknown_message);
  const std::size_t head = Header::kSize + bytes_of(kind->layout);
  const bool fits = kind->has_data ? message.size() >= head : message.size() == head;
  if (header.length != message.size() || !fits) return std::unexpected(WireError::wrong_length);
  const bool is_stream = header.mid == Mid::data || header.mid == Mid::source_available;
  return Message{.header = header,
                 .body = decode_body(kind->layout, message.data() + Header::kSize),
                 .data = is_stream ? message.subspan(head) : ByteSpan()};
}

std::size_t encode(const Header& header, const Body& body, std::span<std::byte, kMostHead> out) {
  out[0] = static_cast<std::byte>(header.mid);
  out[1] = static_cast<std::byte>((header.has_urgent ? kUrgentPresent : 0) |
                                  (header.urgent_pending ? kUrgentPending : 0) |
                                  (header.wants_pipeline ? kPipelined : 0));
  store_be(&out[2], header.buffers);
  store_be(&out[4], header.length);
  store_be(&out[8], header.sequence);
  store_be(&out[12], header.acknowledged);
  return Header::kSize + encode_body(body, &out[Header::kSize]);
}

}  // namespace verbatim::ulp::sdp
