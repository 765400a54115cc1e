#include "fabric/protocol/decode.h"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

namespace verbatim::fabric::protocol {

Result<MessageType> type_of(ByteSpan message) {
  Header header;
  if (message.size() < sizeof header) return refuse(EPROTO, "a message is too short");
  std::memcpy(&header, message.data(), sizeof header);
  if (header.magic != Header::kMagic) return refuse(EPROTO, "this is no message of a fabric");
  if (header.version != kVersion) {
    return refuse(EPROTONOSUPPORT,
                  fmt::format("the other side speaks version {} of the fabric's protocol, this one "
                              "version {}: end the fabric and start it again",
                              header.version, kVersion));
  }
  return header.type;
}

Result<void> detail::check(ByteSpan message, MessageType type, std::size_t size) {
  const auto found = type_of(message);
  if (!found) return std::unexpected(found.error());
  if (*found == type && message.size() == size) return {};
  return refuse(EPROTO, fmt::format("message {:#x} of {} bytes came in place of {:#x} of {}",
                                    static_cast<unsigned>(*found), message.size(),
                                    static_cast<unsigned>(type), size));
}

Result<MadMessage> decode_mad(ByteSpan message, MessageType type) {
  // Both directions have the same structure.
  static_assert(sizeof(SentMad) == sizeof(ReceivedMad));
  static_assert(offsetof(SentMad, record) == offsetof(ReceivedMad, record));
  const auto start = message.first(std::min(message.size(), sizeof(SentMad)));
  if (auto fits = detail::check(start, type, sizeof(SentMad)); !fits) {
    return std::unexpected(fits.error());
  }
  MadMessage mad;
  std::memcpy(&mad.record, message.data() + offsetof(SentMad, record), sizeof mad.record);
  mad.inline_bytes = message.subspan(sizeof(SentMad));
  const MadRecord& record = mad.record;
  const bool is_long = record.length > kInlineBytes;
  const bool length_fits = is_long ? record.length <= kMadBytesMax && mad.inline_bytes.empty()
                                   : record.length == mad.inline_bytes.size();
  if (!length_fits || record.agent >= kAgentsMax || record.address.service_level > 15) {
    return refuse(EPROTO, fmt::format("a datagram of {} bytes for agent {}, service level {}",
                                      record.length, record.agent, record.address.service_level));
  }
  return mad;
}

void put_text(std::span<char> field, std::string_view text) {
  std::ranges::fill(field, '\0');
  text.copy(field.data(), field.size() - 1);
}

std::string_view text_of(std::span<const char> field) {
  const auto end = std::ranges::find(field, '\0');
  return {field.data(), static_cast<std::size_t>(end - field.begin())};
}

}  // namespace verbatim::fabric::protocol
