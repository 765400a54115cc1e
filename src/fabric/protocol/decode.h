#pragma once

#include <cstring>
#include <type_traits>

#include "base/bytes.h"
#include "base/error.h"
#include "fabric/protocol/messages.h"

/// Bytes that came over the socket to messages. Everything is checked here, once.
namespace verbatim::fabric::protocol {

/// EPROTO if the bytes are no message, EPROTONOSUPPORT if they are of another version.
Result<MessageType> type_of(ByteSpan message);

namespace detail {
Result<void> check(ByteSpan message, MessageType type, std::size_t size);
}  // namespace detail

/// The message as a `T`. EPROTO if it is another one, or not of T's size.
template <typename T>
Result<T> decode(ByteSpan message) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (auto fits = detail::check(message, T::kType, sizeof(T)); !fits) {
    return std::unexpected(fits.error());
  }
  T value;
  std::memcpy(&value, message.data(), sizeof value);
  return value;
}

/// A datagram's record and, if it is short, its bytes: borrowed from the message. A long one lies
/// in the memfd beside it.
struct MadMessage {
  MadRecord record;
  ByteSpan inline_bytes;
  bool is_inline() const { return record.length <= kInlineBytes; }
};

/// EPROTO if numbers in it are out of range, or its length is not that of its bytes.
Result<MadMessage> decode_mad(ByteSpan message, MessageType type);

/// Text that ends with a zero; longer text is cut.
void put_text(std::span<char> field, std::string_view text);
/// Up to the first zero.
std::string_view text_of(std::span<const char> field);

}  // namespace verbatim::fabric::protocol
