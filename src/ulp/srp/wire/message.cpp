#include "ulp/srp/wire/message.h"

#include <algorithm>

#include "base/assert.h"

namespace verbatim::ulp::srp {
namespace {

constexpr std::uint32_t kHeadBytes = 20;  // Of an indirect buffer, before its ranges.
constexpr std::uint64_t kRangesMax = 8192 / Buffer::kRangeBytes;  // Of a table.
constexpr std::uint8_t kHasCode = 0x1, kHasSense = 0x2;
constexpr std::uint8_t kOutOver = 0x4, kOutUnder = 0x8, kInOver = 0x10, kInUnder = 0x20;

RemoteRange load_range(const std::byte* at) {
  return {load_be<std::uint64_t>(at), load_be<std::uint32_t>(at + 12),
          MemoryKey{load_be<std::uint32_t>(at + 8)}};
}

std::uint8_t byte_at(ByteSpan bytes, std::size_t at) {
  return std::to_integer<std::uint8_t>(bytes[at]);
}

/// Takes the first bytes of `rest`. False: there are fewer.
bool take(ByteSpan& rest, std::size_t bytes, ByteSpan& out, BufferFault& fault) {
  if (rest.size() < bytes) {
    fault = {"bytes of descriptors are left", rest.size(), bytes};
    return false;
  }
  out = rest.first(bytes);
  rest = rest.subspan(bytes);
  return true;
}

bool take_buffer(ByteSpan& rest, std::uint8_t format, std::uint8_t count, Buffer& out,
                 BufferFault& fault) {
  ByteSpan head;
  out.format = Format{format};
  switch (out.format) {
    case Format::none:
      return true;
    case Format::direct:
      if (!take(rest, Buffer::kRangeBytes, out.ranges, fault)) return false;
      out.bytes = out[0].bytes;
      return true;
    case Format::indirect: {
      if (!take(rest, kHeadBytes, head, fault)) return false;
      out.table = load_range(head.data());
      out.bytes = load_be<std::uint32_t>(&head[16]);
      if (!take(rest, std::size_t{count} * Buffer::kRangeBytes, out.ranges, fault)) return false;
      if (out.table.bytes % Buffer::kRangeBytes != 0 ||
          out.table.bytes / Buffer::kRangeBytes > kRangesMax) {
        fault = {"bytes of a table of descriptors", out.table.bytes,
                 kRangesMax * Buffer::kRangeBytes};
        return false;
      }
      out.ranges = out.ranges.first(std::min<std::size_t>(out.ranges.size(), out.table.bytes));
      if (!out.needs_table()) fault = check_ranges(out);
      return fault.what == nullptr;
    }
    case Format::immediate:
      if (!take(rest, 4, head, fault)) return false;
      out.bytes = load_be<std::uint32_t>(head.data());
      return true;
  }
  fault = {"is a format of descriptors", format, raw(Format::immediate)};
  return false;
}

void add_residual(std::int64_t residual, std::byte* at, std::uint8_t over, std::uint8_t under,
                  std::uint8_t& flags) {
  if (residual == 0) return;
  flags |= residual > 0 ? over : under;
  store_be(at, static_cast<std::uint32_t>(residual > 0 ? residual : -residual));
}
std::int64_t residual_of(std::uint8_t flags, std::uint8_t over, std::uint8_t under,
                         const std::byte* at) {
  const std::int64_t bytes = load_be<std::uint32_t>(at);
  if ((flags & over) != 0) return bytes;
  return (flags & under) != 0 ? -bytes : 0;
}

}  // namespace

std::optional<Opcode> opcode_of(ByteSpan message) {
  if (message.empty()) return std::nullopt;
  return Opcode{byte_at(message, 0)};
}

RemoteRange Buffer::operator[](std::size_t i) const { return load_range(&ranges[i * kRangeBytes]); }

std::uint64_t Buffer::described_bytes() const {
  std::uint64_t described = 0;
  for (std::size_t i = 0; i < count(); ++i) described += (*this)[i].bytes;
  return described;
}

BufferFault check_ranges(const Buffer& buffer) {
  const std::uint64_t described = buffer.described_bytes();
  if (buffer.format != Format::indirect || described >= buffer.bytes) return {};
  return {"bytes are described", described, buffer.bytes};
}

std::optional<Command> decode_command(ByteSpan message, std::uint16_t immediate_offset,
                                      BufferFault& fault) {
  if (opcode_of(message) != Opcode::command || message.size() < Command::kSize) return std::nullopt;
  Command out{.tag = load_be<std::uint64_t>(&message[kTagAt]),
              .lun = load_be<std::uint64_t>(&message[20]),
              .notification = byte_at(message, 1),
              .attribute = static_cast<std::uint8_t>(byte_at(message, 29) & 7)};
  out.cdb = message.subspan(32, 16);
  ByteSpan rest = message.subspan(32);
  if (!take(rest, 16U + (byte_at(message, 31) & 0xfcU), out.cdb, fault)) return out;
  const std::uint8_t formats = byte_at(message, 5);
  if (!take_buffer(rest, formats >> 4, byte_at(message, 6), out.out, fault)) return out;
  if (!take_buffer(rest, formats & 0xf, byte_at(message, 7), out.in, fault)) return out;
  if (out.in.format == Format::immediate) {
    fault = {"is a format of data to the initiator", raw(out.in.format), raw(Format::indirect)};
  } else if (out.out.format == Format::immediate) {
    const std::size_t used = message.size() - rest.size();
    const std::size_t room =
        message.size() - std::min<std::size_t>(message.size(), immediate_offset);
    if (immediate_offset < used)
      fault = {"is where immediate data begins, behind its descriptor", immediate_offset, used};
    else if (out.out.bytes > room)
      fault = {"bytes of immediate data are there", room, out.out.bytes};
    else
      out.immediate = message.subspan(immediate_offset, out.out.bytes);
  }
  return out;
}

std::optional<TaskManagement> decode_management(ByteSpan message) {
  if (opcode_of(message) != Opcode::task_management || message.size() < TaskManagement::kSize)
    return std::nullopt;
  return TaskManagement{.tag = load_be<std::uint64_t>(&message[kTagAt]),
                        .lun = load_be<std::uint64_t>(&message[20]),
                        .function = Function{byte_at(message, 30)},
                        .task = load_be<std::uint64_t>(&message[32])};
}

std::array<std::byte, TaskManagement::kSize> encode(const TaskManagement& request) {
  std::array<std::byte, TaskManagement::kSize> out{};
  out[0] = std::byte{raw(Opcode::task_management)};
  store_be(&out[kTagAt], request.tag);
  store_be(&out[20], request.lun);
  out[30] = std::byte{raw(request.function)};
  store_be(&out[32], request.task);
  return out;
}

ResponseBytes encode(const Response& response) {
  std::array<std::byte, Response::kSize> head{};
  std::uint8_t flags = 0;
  head[0] = std::byte{raw(Opcode::response)};
  head[1] = std::byte{response.is_solicited};
  store_be(&head[4], static_cast<std::uint32_t>(response.request_limit));
  store_be(&head[kTagAt], response.tag);
  head[19] = std::byte{response.status};
  add_residual(response.out_residual, &head[20], kOutOver, kOutUnder, flags);
  add_residual(response.in_residual, &head[24], kInOver, kInUnder, flags);
  if (response.code) flags |= kHasCode;
  if (!response.sense.empty()) flags |= kHasSense;
  store_be(&head[28], static_cast<std::uint32_t>(response.sense.size()));
  store_be(&head[32], response.code ? 4U : 0U);
  head[18] = std::byte{flags};
  ResponseBytes out;
  out.add(head);
  if (response.code)
    out.add(std::array{std::byte{}, std::byte{}, std::byte{}, std::byte{raw(*response.code)}});
  out.add(response.sense);
  return out;
}

std::optional<Response> decode_response(ByteSpan message) {
  if (opcode_of(message) != Opcode::response || message.size() < Response::kSize)
    return std::nullopt;
  const std::uint8_t flags = byte_at(message, 18);
  const std::uint64_t sense = load_be<std::uint32_t>(&message[28]);
  const std::uint64_t data = load_be<std::uint32_t>(&message[32]);
  if (message.size() - Response::kSize < sense + data) return std::nullopt;
  if ((flags & kHasCode) != 0 && data < 4) return std::nullopt;
  Response out{.request_limit = static_cast<std::int32_t>(load_be<std::uint32_t>(&message[4])),
               .tag = load_be<std::uint64_t>(&message[kTagAt]),
               .status = byte_at(message, 19),
               .is_solicited = (byte_at(message, 1) & 1) != 0,
               .out_residual = residual_of(flags, kOutOver, kOutUnder, &message[20]),
               .in_residual = residual_of(flags, kInOver, kInUnder, &message[24])};
  if ((flags & kHasCode) != 0) out.code = ResponseCode{byte_at(message, Response::kSize + 3)};
  if ((flags & kHasSense) != 0)
    out.sense = message.subspan(Response::kSize + static_cast<std::size_t>(data), sense);
  return out;
}

/// An event's unit is at 20, its sense's length at 28, its sense at 36. The others end with 16.
ResponseBytes encode_request(Opcode opcode, std::uint32_t number, std::uint64_t tag,
                             std::uint64_t lun, ByteSpan sense) {
  std::array<std::byte, Response::kSize> head{};
  head[0] = std::byte{raw(opcode)};
  store_be(&head[4], number);
  store_be(&head[kTagAt], tag);
  store_be(&head[20], lun);
  store_be(&head[28], static_cast<std::uint32_t>(sense.size()));
  ResponseBytes out;
  out.add(ByteSpan(head).first(opcode == Opcode::event_request ? head.size() : kTagEnd));
  out.add(sense);
  return out;
}

std::array<std::byte, kTagEnd> encode_answer(Opcode opcode, std::uint64_t tag) {
  std::array<std::byte, kTagEnd> out{};
  out[0] = std::byte{raw(opcode)};
  store_be(&out[kTagAt], tag);
  return out;
}

std::optional<std::uint64_t> tag_of(ByteSpan message) {
  if (message.size() < kTagEnd) return std::nullopt;
  return load_be<std::uint64_t>(&message[kTagAt]);
}

}  // namespace verbatim::ulp::srp
