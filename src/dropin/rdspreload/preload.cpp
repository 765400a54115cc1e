// Sending and receiving.
#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/os/passed_descriptors.h"
#include "base/time.h"
#include "dropin/rdspreload/fd_table.h"
#include "dropin/rdspreload/granted_memory.h"
#include "dropin/rdspreload/linux_rds.h"
#include "dropin/rdspreload/next.h"
#include "dropin/rdspreload/sockets.h"
#include "dropin/rdspreload/straight.h"
#include "dropin/rdspreload/transmission.h"

namespace verbatim::rdspreload {
namespace {

namespace local = ulp::rds::local;

constexpr std::size_t kMessageBytesMax = 1 << 20;

int fail(int error) {
  errno = error;
  return -1;
}

/// Whether the socket is bound (and connected): asks the broker once.
bool is_ready(int fd, SocketUse& socket, bool needs_peer) {
  const std::uint8_t known = known_of(fd);
  local::Answer answer;
  if ((known & kIsBound) == 0) {
    if (local::ask(fd, local::Ask::own_name, answer) < 0) return false;
    if (answer.address.any.sa_family == AF_UNSPEC) return fail(ENOTCONN) == 0;
    socket->own = answer.address;
    add_known(fd, kIsBound);
  }
  if (needs_peer && (known & kIsConnected) == 0) {
    if (local::ask(fd, local::Ask::peer_name, answer) < 0) return false;
    add_known(fd, kIsConnected);
  }
  return true;
}

bool may_wait(int fd, int flags) {
  return (flags & MSG_DONTWAIT) == 0 && (fcntl(fd, F_GETFL) & O_NONBLOCK) == 0;
}

/// Waits until it may send, if it may wait.
bool may_send(int fd, const local::Address& to, int flags) {
  const local::Head question{
      .ask = local::Ask::may_send, .value = may_wait(fd, flags) ? 1u : 0u, .address = to};
  local::Answer answer;
  return local::ask(fd, question, nullptr, answer) >= 0;
}

/// A receiver that is slow for a moment is waited for; the broker has the messages of one that does
/// not read.
bool put_straight(int fd, Socket& socket, const local::Address& to, const msghdr& message,
                  std::size_t bytes, int flags) {
  constexpr TimeNs kYields = 200 * kMicrosecond, kPatience = 50 * kMillisecond;
  constexpr timespec kNap{0, 50'000};
  for (TimeNs began = 0;;) {
    const auto put = send_straight(socket, to, message.msg_iov, message.msg_iovlen, bytes);
    if (put != Straight::waits) return put == Straight::sent;
    const TimeNs now = monotonic_now();
    if (now < socket.by_broker_until.load(std::memory_order_relaxed)) return false;
    if (began == 0) began = now;
    if (now - began < kYields) {
      sched_yield();
    } else if (now - began < kPatience && may_wait(fd, flags)) {
      nanosleep(&kNap, nullptr);
    } else {
      socket.by_broker_until.store(now + kPatience, std::memory_order_relaxed);
      return false;
    }
  }
}

/// That of readv and writev, which say EINVAL themselves to a count that is none.
msghdr message_of(const iovec* pieces, int count) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces);
  message.msg_iovlen = static_cast<std::size_t>(count);
  return message;
}

ssize_t send_message(int fd, const msghdr& message, int flags) {
  if ((flags & ~MSG_DONTWAIT) != 0) return fail(EOPNOTSUPP);
  local::Address to{.ipv6 = {}};
  if (message.msg_namelen != 0) {
    const auto* const name = static_cast<const sockaddr*>(message.msg_name);
    if (!local::to_address(name, message.msg_namelen, to)) return -1;
  }
  std::size_t bytes = 0;
  if (message.msg_iovlen > IOV_MAX) return fail(EMSGSIZE);
  for (std::size_t i = 0; i < message.msg_iovlen; ++i) {
    const std::size_t more = message.msg_iov[i].iov_len;
    if (more > SSIZE_MAX) return fail(EINVAL);
    if (more > kMessageBytesMax - bytes) return fail(EMSGSIZE);
    bytes += more;
  }
  SocketUse socket(fd);
  if (!socket || !is_ready(fd, socket, message.msg_namelen == 0)) return -1;
  const bool has_more = has_operations(message);
  if (!has_more && message.msg_namelen != 0 && may_go_straight(fd) &&
      put_straight(fd, *socket, to, message, bytes, flags))
    return static_cast<ssize_t>(bytes);
  const bool asks = has_more || bytes > local::kInlineBytesMax || may_be_congested(fd);
  if (asks && !may_send(fd, to, flags)) return -1;
  if (has_more) return transmit(fd, message, to, bytes);
  socket.inbox().submitted.fetch_add(1);
  const ssize_t sent = local::send(fd, to, message.msg_iov, message.msg_iovlen, flags);
  if (sent < 0) socket.inbox().submitted.fetch_sub(1);
  return sent;
}

/// Appends a control message, or says that it was cut off.
template <typename Value>
void put(msghdr& message, std::size_t& used, int type, const Value& value) {
  const std::size_t left = message.msg_controllen - used;
  if (message.msg_control == nullptr || left < CMSG_LEN(sizeof value)) {
    message.msg_flags |= MSG_CTRUNC;
    return;
  }
  auto* const header = reinterpret_cast<cmsghdr*>(static_cast<char*>(message.msg_control) + used);
  header->cmsg_level = local::kLevel;
  header->cmsg_type = type;
  header->cmsg_len = CMSG_LEN(sizeof value);
  std::memcpy(CMSG_DATA(header), &value, sizeof value);
  used += std::min(left, CMSG_SPACE(sizeof value));
}

/// What a packet brings along: a notice instead of a message, or what a peer offers with one.
void put_control(msghdr& message, const local::Head& head) {
  std::size_t used = 0;
  message.msg_flags = 0;
  if (head.kind == local::Kind::congestion) {
    put(message, used, kCongestionUpdate, head.value);
  } else if (head.kind == local::Kind::notice) {
    put(message, used, kRdmaStatus, RdmaNotice{head.value, head.option});
  } else if ((head.brings & local::kOffer) != 0) {
    put(message, used, kRdmaDestination, head.cookie);
  }
  message.msg_controllen = used;
}

ssize_t receive_message(int fd, msghdr& message, int flags) {
  if ((flags & (MSG_OOB | MSG_ERRQUEUE)) != 0) return fail(EAGAIN);
  SocketUse socket(fd);
  if (!socket) return -1;
  for (;;) {
    local::Received received;
    const ssize_t bytes =
        local::receive(fd, socket.inbox(), message.msg_iov, message.msg_iovlen, flags, received);
    if (bytes < 0) return -1;
    const local::Head& head = received.head;
    const bool is_message =
        head.kind == local::Kind::message || head.kind == local::Kind::message_in_file;
    if (head.kind == local::Kind::congestion && head.option == 0) {
      // For those who sleep, not to be told.
      if ((flags & MSG_PEEK) != 0)
        local::receive(fd, socket.inbox(), nullptr, 0, flags & ~MSG_PEEK, received);
      continue;
    }
    if ((head.brings & local::kUsedKey) != 0) on_used(head.used_key);
    if (!is_message) {
      message.msg_namelen = 0;
    } else if (message.msg_name != nullptr) {
      local::copy_name(head.address, static_cast<sockaddr*>(message.msg_name),
                       &message.msg_namelen);
    }
    put_control(message, head);
    if (received.is_cut) message.msg_flags |= MSG_TRUNC;
    return bytes;
  }
}

/// Descriptors that came from another process may be RDS sockets.
void find_received(const msghdr& message) {
  if (broker_path().empty()) return;
  for_each_descriptor(message, [](int fd) {
    if (local::is_socket(fd, broker_path())) set_known(fd, kIsRds);
  });
}

}  // namespace
}  // namespace verbatim::rdspreload

using namespace verbatim::rdspreload;  // NOLINT: a file of entry points.

#define EXPORT __attribute__((visibility("default")))

extern "C" {

EXPORT ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  static auto* const plain = VERBATIM_NEXT(sendmsg);
  return is_rds(fd) ? send_message(fd, *message, flags) : plain(fd, message, flags);
}

EXPORT ssize_t recvmsg(int fd, msghdr* message, int flags) {
  static auto* const plain = VERBATIM_NEXT(recvmsg);
  if (is_rds(fd)) return receive_message(fd, *message, flags);
  const ssize_t got = plain(fd, message, flags);
  if (got >= 0 && message->msg_controllen > 0) find_received(*message);
  return got;
}

EXPORT ssize_t sendto(int fd, const void* buffer, size_t size, int flags, const sockaddr* address,
                      socklen_t length) {
  static auto* const plain = VERBATIM_NEXT(sendto);
  if (!is_rds(fd)) return plain(fd, buffer, size, flags, address, length);
  iovec piece{const_cast<void*>(buffer), size};
  msghdr message{};
  message.msg_name = const_cast<sockaddr*>(address);
  message.msg_namelen = address == nullptr ? 0 : length;
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  return send_message(fd, message, flags);
}

EXPORT ssize_t recvfrom(int fd, void* buffer, size_t size, int flags, sockaddr* address,
                        socklen_t* length) {
  static auto* const plain = VERBATIM_NEXT(recvfrom);
  if (!is_rds(fd)) return plain(fd, buffer, size, flags, address, length);
  iovec piece{buffer, size};
  msghdr message{};
  message.msg_name = length == nullptr ? nullptr : address;
  message.msg_namelen = length == nullptr ? 0 : *length;
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  const ssize_t bytes = receive_message(fd, message, flags);
  if (bytes >= 0 && length != nullptr) *length = message.msg_namelen;
  return bytes;
}

EXPORT ssize_t send(int fd, const void* buffer, size_t size, int flags) {
  static auto* const plain = VERBATIM_NEXT(send);
  return is_rds(fd) ? sendto(fd, buffer, size, flags, nullptr, 0) : plain(fd, buffer, size, flags);
}

EXPORT ssize_t recv(int fd, void* buffer, size_t size, int flags) {
  static auto* const plain = VERBATIM_NEXT(recv);
  if (!is_rds(fd)) return plain(fd, buffer, size, flags);
  return recvfrom(fd, buffer, size, flags, nullptr, nullptr);
}

EXPORT ssize_t write(int fd, const void* buffer, size_t size) {
  static auto* const plain = VERBATIM_NEXT(write);
  return is_rds(fd) ? sendto(fd, buffer, size, 0, nullptr, 0) : plain(fd, buffer, size);
}

EXPORT ssize_t read(int fd, void* buffer, size_t size) {
  static auto* const plain = VERBATIM_NEXT(read);
  return is_rds(fd) ? recvfrom(fd, buffer, size, 0, nullptr, nullptr) : plain(fd, buffer, size);
}

EXPORT ssize_t writev(int fd, const iovec* pieces, int count) {
  static auto* const plain = VERBATIM_NEXT(writev);
  if (!is_rds(fd)) return plain(fd, pieces, count);
  if (count < 0 || count > IOV_MAX) return fail(EINVAL);
  const msghdr message = message_of(pieces, count);
  return send_message(fd, message, 0);
}

EXPORT ssize_t readv(int fd, const iovec* pieces, int count) {
  static auto* const plain = VERBATIM_NEXT(readv);
  if (!is_rds(fd)) return plain(fd, pieces, count);
  if (count < 0 || count > IOV_MAX) return fail(EINVAL);
  msghdr message = message_of(pieces, count);
  return receive_message(fd, message, 0);
}

}  // extern "C"
