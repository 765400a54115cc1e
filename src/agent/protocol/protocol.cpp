#include "agent/protocol/protocol.h"

#include <algorithm>

#include <sys/socket.h>

#include "base/os/passed_descriptors.h"

namespace verbatim::agent {
namespace {

constexpr std::size_t kMessageBytesMax = 4096;
static_assert(sizeof(Welcome) <= kMessageBytesMax);

}  // namespace

MessageType Incoming::type() const {
  Header header{.magic = 0};
  if (bytes.size() >= sizeof header) std::memcpy(&header, bytes.data(), sizeof header);
  return header.magic == Header::kMagic ? header.type : MessageType{};
}

Result<void> Incoming::check(MessageType wanted, std::size_t size) const {
  Header header{.magic = 0};
  if (bytes.size() >= sizeof header) std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != Header::kMagic) return refuse(EPROTO, "not a message of Verbatim's");
  if (header.version != kProtocolVersion) {
    return refuse(
        EPROTONOSUPPORT,
        fmt::format("the other side speaks version {} of the agent's protocol, this one {}: "
                    "program and agent come from different releases",
                    header.version, kProtocolVersion));
  }
  if (header.type != wanted || bytes.size() != size) {
    return refuse(EPROTO,
                  fmt::format("a message of type {:#x} and {} bytes instead of {:#x} and {}",
                              raw(header.type), bytes.size(), raw(wanted), size));
  }
  return {};
}

Result<Incoming> receive(int fd, int flags) {
  Incoming incoming;
  incoming.bytes.resize(kMessageBytesMax);
  incoming.descriptors.resize(kPassedDescriptorsMax);
  const iovec piece{incoming.bytes.data(), incoming.bytes.size()};
  const auto message = receive_message(fd, {&piece, 1}, incoming.descriptors, flags);
  if (!message && errno == EMFILE) {
    return refuse(EMFILE,
                  "no descriptor is left in this process (ulimit -n) for those that came "
                  "with a message");
  }
  if (!message) return refuse_errno("cannot receive");
  if (message->bytes == 0) return refuse(kClosed, "the other side is gone");
  if (message->is_cut) return refuse(EPROTO, "a message with more bytes than any has");
  incoming.bytes.resize(message->bytes);
  incoming.descriptors.resize(message->descriptors);
  return incoming;
}

Result<void> send_bytes(int fd, std::span<const std::byte> bytes, std::span<const int> descriptors,
                        int flags) {
  const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  if (!send_message(fd, {&piece, 1}, descriptors, flags)) return refuse_errno("cannot send");
  return {};
}

void put_text(std::span<char> field, std::string_view text) {
  const std::size_t length = std::min(text.size(), field.size() - 1);
  std::ranges::copy(text.substr(0, length), field.begin());
  std::ranges::fill(field.subspan(length), '\0');
}

std::string get_text(std::span<const char> field) {
  std::string text(field.begin(), std::ranges::find(field, '\0'));
  std::ranges::replace_if(text, [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

AddressRecord to_record(const SocketAddress& address) {
  return {address.ipv6_bytes(), address.scope_id(), address.port(), address.is_ipv4()};
}

SocketAddress from_record(const AddressRecord& record) {
  const auto& b = record.bytes;
  if (record.is_ipv4 != 0) return SocketAddress::ipv4({b[12], b[13], b[14], b[15]}, record.port);
  return SocketAddress::ipv6(b, record.port, record.scope_id);
}

}  // namespace verbatim::agent
