#include "mover/tcp_stream.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace verbatim::mover {
namespace {

/// Where the kernel does not tell (RFC 9293, section 3.7.1).
constexpr int kSegmentBytesDefault = 536;

}  // namespace

Result<TcpStream> TcpStream::adopt(UniqueFd fd) {
  sockaddr_storage peer{};
  socklen_t length = sizeof peer;
  if (getpeername(fd.get(), reinterpret_cast<sockaddr*>(&peer), &length) != 0) {
    return refuse_errno("no connected socket");
  }
  const int on = 1;
  // Whole messages are given to the socket at once: nothing is won by waiting for more.
  if (setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) {
    return refuse(EINVAL, "no TCP socket");
  }
  if (fcntl(fd.get(), F_SETFL, O_NONBLOCK) != 0) return refuse_errno("O_NONBLOCK");
  TcpStream stream;
  stream.fd_ = std::move(fd);
  stream.out_ = std::make_unique_for_overwrite<std::byte[]>(kBufferBytes);
  stream.in_ = std::make_unique_for_overwrite<std::byte[]>(kBufferBytes);
  return stream;
}

std::size_t TcpStream::segment_bytes() const {
  int bytes = 0;
  socklen_t length = sizeof bytes;
  const bool is_told =
      getsockopt(fd_.get(), IPPROTO_TCP, TCP_MAXSEG, &bytes, &length) == 0 && bytes > 0;
  return static_cast<std::size_t>(is_told ? bytes : kSegmentBytesDefault);
}

MutableByteSpan TcpStream::reserve(std::size_t bytes) {
  if (begin_ == end_) begin_ = end_ = 0;
  if (kBufferBytes - end_ < bytes) return {};
  return {&out_[end_], bytes};
}

int TcpStream::send() {
  while (begin_ < end_) {
    const ssize_t sent = ::send(fd_.get(), &out_[begin_], end_ - begin_, MSG_NOSIGNAL);
    if (sent < 0 && errno != EINTR) return errno;
    if (sent > 0) begin_ += static_cast<std::size_t>(sent);
  }
  return 0;
}

int TcpStream::receive() {
  if (taken_ > 0) {
    std::memmove(&in_[0], &in_[taken_], arrived_ - taken_);
    arrived_ -= taken_;
    taken_ = 0;
  }
  if (arrived_ == kBufferBytes) return 0;
  for (;;) {
    const ssize_t got = recv(fd_.get(), &in_[arrived_], kBufferBytes - arrived_, MSG_DONTWAIT);
    if (got == 0) return ENODATA;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    arrived_ += static_cast<std::size_t>(got);
    return 0;
  }
}

void TcpStream::shut_down() { ::shutdown(fd_.get(), SHUT_WR); }

void TcpStream::reset() {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  fd_.reset();
}

}  // namespace verbatim::mover
