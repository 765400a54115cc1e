#include "wire/netlink/message.h"

#include <algorithm>

namespace verbatim::wire::netlink {
namespace {

constexpr std::size_t kAlignment = 4;
constexpr std::uint16_t kTypeMask = 0x3fff;  // Above are "nested" and "network byte order".

constexpr std::size_t aligned(std::size_t size) {
  return (size + kAlignment - 1) / kAlignment * kAlignment;
}

/// Requires that the bytes are there.
template <typename T>
T load(ByteSpan bytes, std::size_t at) {
  T number;
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

/// The last of several need not be padded.
void drop(ByteSpan& bytes, std::size_t size) {
  bytes = bytes.subspan(std::min(aligned(size), bytes.size()));
}

}  // namespace

std::optional<Message> take_message(ByteSpan& bytes) {
  if (bytes.size() < Header::kSize) return std::nullopt;
  const auto length = load<std::uint32_t>(bytes, 0);
  if (length < Header::kSize || length > bytes.size()) return std::nullopt;
  const Message message{.header = {.type = load<std::uint16_t>(bytes, 4),
                                   .flags = load<std::uint16_t>(bytes, 6),
                                   .sequence = load<std::uint32_t>(bytes, 8),
                                   .port = load<std::uint32_t>(bytes, 12)},
                        .bytes = bytes.first(length)};
  drop(bytes, length);
  return message;
}

std::optional<std::string_view> Attribute::text() const {
  const std::string_view all(reinterpret_cast<const char*>(value.data()), value.size());
  const auto end = all.find('\0');
  if (end == std::string_view::npos) return std::nullopt;
  return all.substr(0, end);
}

std::optional<Attribute> take_attribute(ByteSpan& bytes) {
  if (bytes.size() < Attribute::kHeaderSize) return std::nullopt;
  const auto length = load<std::uint16_t>(bytes, 0);
  if (length < Attribute::kHeaderSize || length > bytes.size()) return std::nullopt;
  const Attribute attribute{
      .type = static_cast<std::uint16_t>(load<std::uint16_t>(bytes, 2) & kTypeMask),
      .value = bytes.subspan(Attribute::kHeaderSize, length - Attribute::kHeaderSize)};
  drop(bytes, length);
  return attribute;
}

MessageWriter::MessageWriter(const Header& header) {
  append(std::uint32_t{0});  // The length, until `finish`.
  append(header.type);
  append(header.flags);
  append(header.sequence);
  append(header.port);
}

void MessageWriter::put(std::uint16_t type, ByteSpan value) {
  const std::size_t nest = begin_nest(type);
  put_raw(value);
  end_nest(nest);
}

void MessageWriter::put_text(std::uint16_t type, std::string_view text) {
  const std::size_t nest = begin_nest(type);
  put_raw(std::as_bytes(std::span(text)));
  bytes_.push_back(std::byte{0});
  end_nest(nest);
}

void MessageWriter::put_raw(ByteSpan bytes) {
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

std::size_t MessageWriter::begin_nest(std::uint16_t type) {
  const std::size_t nest = bytes_.size();
  append(std::uint16_t{0});  // The length, until `end_nest`.
  append(type);
  return nest;
}

void MessageWriter::end_nest(std::size_t nest) {
  const auto length = static_cast<std::uint16_t>(bytes_.size() - nest);
  std::memcpy(bytes_.data() + nest, &length, sizeof length);
  align();
}

std::vector<std::byte> MessageWriter::finish() && {
  const auto length = static_cast<std::uint32_t>(bytes_.size());
  std::memcpy(bytes_.data(), &length, sizeof length);
  align();
  return std::move(bytes_);
}

void MessageWriter::align() { bytes_.resize(aligned(bytes_.size())); }

}  // namespace verbatim::wire::netlink
