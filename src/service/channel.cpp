#include "service/channel.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include "base/assert.h"
#include "base/os/passed_descriptors.h"

namespace verbatim::service {
namespace {

///     byte   0-3     4-5       6-7
///          +-------+---------+------+
///          | magic | version | type |
///          +-------+---------+------+
struct Header {
  std::uint32_t magic = 0;
  std::uint16_t version = 0;
  std::uint16_t type = 0;
};

/// Returns errno, or 0.
int send_now(int fd, ByteSpan bytes, std::span<const int> descriptors, int flags) {
  const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  return send_message(fd, {&piece, 1}, descriptors, flags) ? 0 : errno;
}

std::vector<int> numbers_of(std::span<const UniqueFd> descriptors) {
  std::vector<int> numbers;
  for (const UniqueFd& descriptor : descriptors) numbers.push_back(descriptor.get());
  return numbers;
}

}  // namespace

Result<Incoming> Channel::receive(int flags) {
  Incoming incoming{.bytes = std::vector<std::byte>(kBytesMax),
                    .descriptors = std::vector<UniqueFd>(kDescriptorsMax)};
  const iovec piece{incoming.bytes.data(), incoming.bytes.size()};
  const auto message = receive_message(fd_.get(), {&piece, 1}, incoming.descriptors, flags);
  if (!message && errno == EMFILE) {
    return refuse(EMFILE, "this process has no room for a message's descriptors");
  }
  if (!message) return refuse_errno("receiving");
  if (message->bytes == 0) return refuse(ECONNRESET, "the other side has closed the connection");
  Header header;
  if (message->is_cut || message->bytes < sizeof header) {
    return refuse(EPROTO, fmt::format("a message of {} bytes is none of ours", message->bytes));
  }
  incoming.descriptors.resize(message->descriptors);
  std::memcpy(&header, incoming.bytes.data(), sizeof header);
  if (header.magic != protocol_.magic) return refuse(EPROTO, "a message of another protocol");
  if (header.version != protocol_.version) {
    return refuse(EPROTONOSUPPORT, fmt::format("the other side has version {} of the protocol, "
                                               "this one {}: stop the older program",
                                               header.version, protocol_.version));
  }
  incoming.type = header.type;
  incoming.bytes.resize(message->bytes);
  incoming.bytes.erase(incoming.bytes.begin(), incoming.bytes.begin() + sizeof header);
  return incoming;
}

std::vector<std::byte> Channel::encoded(std::uint16_t type, ByteSpan bytes) const {
  const Header header{protocol_.magic, protocol_.version, type};
  std::vector<std::byte> all(sizeof header + bytes.size());
  std::memcpy(all.data(), &header, sizeof header);
  if (!bytes.empty()) std::memcpy(all.data() + sizeof header, bytes.data(), bytes.size());
  return all;
}

Result<void> Channel::send(std::uint16_t type, ByteSpan bytes, std::span<const int> descriptors) {
  VERBATIM_ASSERT(descriptors.size() <= kDescriptorsMax);
  Waiting waiting{.bytes = encoded(type, bytes)};
  if (waiting.bytes.size() > kBytesMax) {
    return refuse(EMSGSIZE, fmt::format("a message of {} bytes", waiting.bytes.size()));
  }
  if (queue_.empty()) {
    const int error = send_now(fd_.get(), waiting.bytes, descriptors, MSG_DONTWAIT);
    if (error == 0) return {};
    if (error != EAGAIN) return refuse(error, fmt::format("sending: {}", std::strerror(error)));
  }
  for (const int fd : descriptors) {
    waiting.descriptors.emplace_back(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    if (!waiting.descriptors.back()) return refuse_errno("keeping a message's descriptors");
  }
  if (queued_bytes_ + waiting.cost() > kQueueBytesMax) {
    return refuse(ENOBUFS,
                  fmt::format("the other side does not read: {} bytes wait for it", queued_bytes_));
  }
  queued_bytes_ += waiting.cost();
  queue_.push_back(std::move(waiting));
  return {};
}

Result<void> Channel::flush() {
  while (!queue_.empty()) {
    const Waiting& first = queue_.front();
    const int error = send_now(fd_.get(), first.bytes, numbers_of(first.descriptors), MSG_DONTWAIT);
    if (error == EAGAIN) return {};
    if (error != 0) return refuse(error, fmt::format("sending: {}", std::strerror(error)));
    queued_bytes_ -= first.cost();
    queue_.pop_front();
  }
  return {};
}

Result<void> Channel::send_and_wait(std::uint16_t type, ByteSpan bytes,
                                    std::span<const int> descriptors) {
  const int error = send_now(fd_.get(), encoded(type, bytes), descriptors, 0);
  if (error == 0) return {};
  return refuse(error, fmt::format("sending: {}", std::strerror(error)));
}

Result<std::pair<UniqueFd, UniqueFd>> make_socket_pair() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return refuse_errno("socketpair");
  }
  return std::pair(UniqueFd(ends[0]), UniqueFd(ends[1]));
}

}  // namespace verbatim::service
