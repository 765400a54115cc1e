#include "ulp/disk/vhost/protocol.h"

#include <algorithm>
#include <cerrno>
#include <iterator>

#include <fmt/format.h>

namespace verbatim::ulp::disk::vhost {
namespace {

constexpr std::uint32_t kVersion = 1, kVersionMask = 3;
constexpr std::uint32_t kIsReply = 1 << 2, kNeedsReply = 1 << 3;

enum class Payload : std::uint8_t { none, number, state, address, memory, config };
struct Kind {
  Request request;
  Payload payload;
};
constexpr Kind kKinds[] = {{Request::get_features, Payload::none},
                           {Request::set_features, Payload::number},
                           {Request::set_owner, Payload::none},
                           {Request::reset_owner, Payload::none},
                           {Request::set_mem_table, Payload::memory},
                           {Request::set_vring_num, Payload::state},
                           {Request::set_vring_addr, Payload::address},
                           {Request::set_vring_base, Payload::state},
                           {Request::get_vring_base, Payload::state},
                           {Request::set_vring_kick, Payload::number},
                           {Request::set_vring_call, Payload::number},
                           {Request::set_vring_err, Payload::number},
                           {Request::get_protocol_features, Payload::none},
                           {Request::set_protocol_features, Payload::number},
                           {Request::get_queue_num, Payload::none},
                           {Request::set_vring_enable, Payload::state},
                           {Request::get_config, Payload::config},
                           {Request::set_config, Payload::config}};

/// Takes numbers from the front; past the end they are zero, and `is_short`.
class Reader {
 public:
  explicit Reader(ByteSpan bytes) : rest_(bytes) {}
  template <typename T>
  T take() {
    T value{};
    is_short = is_short || rest_.size() < sizeof value;
    if (is_short) return value;
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_ = rest_.subspan(sizeof value);
    return value;
  }
  std::size_t left() const { return rest_.size(); }
  bool is_short = false;

 private:
  ByteSpan rest_;
};

template <typename T>
void append(Bytes& bytes, const T& value) {
  const ByteSpan more = std::as_bytes(std::span(&value, 1));
  bytes.insert(bytes.end(), more.begin(), more.end());
}

VringState take_state(Reader& from) {
  VringState state;
  state.index = from.take<std::uint32_t>();
  state.number = from.take<std::uint32_t>();
  return state;
}

VringAddress take_address(Reader& from) {
  VringAddress address;
  address.index = from.take<std::uint32_t>();
  address.flags = from.take<std::uint32_t>();
  address.descriptors = from.take<std::uint64_t>();
  address.used = from.take<std::uint64_t>();
  address.available = from.take<std::uint64_t>();
  from.take<std::uint64_t>();  // Where changes are logged, for migration.
  return address;
}

MemoryTable take_table(Reader& from) {
  MemoryTable table;
  const auto count = from.take<std::uint32_t>();
  from.take<std::uint32_t>();
  from.is_short = from.is_short || count > kRegionsMax;
  for (std::uint32_t i = 0; !from.is_short && i < count; ++i) {
    MemoryRegion region;
    for (std::uint64_t* const field : {&region.guest, &region.bytes, &region.user, &region.offset})
      *field = from.take<std::uint64_t>();
    table.push(region);
  }
  return table;
}

ConfigAccess take_access(Reader& from) {
  ConfigAccess access;
  for (std::uint32_t* const field : {&access.offset, &access.bytes, &access.flags})
    *field = from.take<std::uint32_t>();
  from.is_short = from.is_short || from.left() < access.bytes || access.offset > kConfigBytesMax ||
                  access.bytes > kConfigBytesMax - access.offset;
  return access;
}

}  // namespace

Result<Header> decode_header(std::span<const std::byte, kHeaderBytes> bytes) {
  Reader from(bytes);
  const auto request = from.take<std::uint32_t>(), flags = from.take<std::uint32_t>(),
             size = from.take<std::uint32_t>();
  if ((flags & kVersionMask) != kVersion || (flags & kIsReply) != 0)
    return refuse(EPROTO, fmt::format("message {} has flags {:#x}: version {} is expected", request,
                                      flags, kVersion));
  if (size > kMessageBytesMax - kHeaderBytes)
    return refuse(EPROTO, fmt::format("message {} has {} bytes: {} is the most", request, size,
                                      kMessageBytesMax - kHeaderBytes));
  return Header{Request{request}, (flags & kNeedsReply) != 0, size};
}

Result<Message> decode(const Header& header, ByteSpan payload) {
  const auto kind = std::ranges::find(kKinds, header.request, &Kind::request);
  const auto number = static_cast<std::uint32_t>(header.request);
  if (kind == std::end(kKinds))
    return refuse(EOPNOTSUPP, fmt::format("message {} is not known", number));
  Reader from(payload);
  Message message{.header = header, .body = {}};
  switch (kind->payload) {
    case Payload::none:
      break;
    case Payload::number:
      message.body = from.take<std::uint64_t>();
      break;
    case Payload::state:
      message.body = take_state(from);
      break;
    case Payload::address:
      message.body = take_address(from);
      break;
    case Payload::memory:
      message.body = take_table(from);
      break;
    case Payload::config:
      message.body = take_access(from);
      break;
  }
  if (!from.is_short) return message;
  return refuse(EPROTO, fmt::format("message {} has {} bytes, which are not what it has", number,
                                    payload.size()));
}

Bytes encode_reply(Request request, ByteSpan payload) {
  Bytes bytes;
  append(bytes, static_cast<std::uint32_t>(request));
  append(bytes, kVersion | kIsReply);
  append(bytes, static_cast<std::uint32_t>(payload.size()));
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  return bytes;
}

Bytes encode_reply(Request request, std::uint64_t value) {
  return encode_reply(request, std::as_bytes(std::span(&value, 1)));
}

Bytes encode_reply(Request request, const VringState& state) {
  const std::uint32_t numbers[] = {state.index, state.number};
  return encode_reply(request, std::as_bytes(std::span(numbers)));
}

Bytes encode_reply(Request request, const ConfigAccess& access, ByteSpan config) {
  Bytes payload;
  for (const std::uint32_t field : {access.offset, access.bytes, access.flags})
    append(payload, field);
  payload.insert(payload.end(), config.begin(), config.end());
  return encode_reply(request, payload);
}

}  // namespace verbatim::ulp::disk::vhost
