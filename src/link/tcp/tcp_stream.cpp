#include "link/tcp/tcp_stream.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <utility>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/assert.h"

namespace verbatim::link {
namespace {

/// Used if the kernel does not tell (RFC 9293, section 3.7.1).
constexpr int kSegmentBytesDefault = 536;

}  // namespace

Result<TcpStream> TcpStream::adopt(UniqueFd fd) {
  sockaddr_storage peer{};
  socklen_t length = sizeof peer;
  if (getpeername(fd.get(), reinterpret_cast<sockaddr*>(&peer), &length) != 0) {
    return refuse_errno("no connected socket");
  }
  const int on = 1;
  // Whole messages are passed to the socket at once, so waiting for more would not help.
  if (setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) {
    return refuse(EINVAL, "no TCP socket");
  }
  if (fcntl(fd.get(), F_SETFL, O_NONBLOCK) != 0) return refuse_errno("O_NONBLOCK");
  TcpStream stream;
  stream.fd_ = std::move(fd);
  stream.out_ = std::make_unique_for_overwrite<std::byte[]>(kBufferBytes);
  stream.spare_ = std::make_unique_for_overwrite<std::byte[]>(kBufferBytes);
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
  if (waiting_ == 0) end_ = first_ = count_ = 0;
  if (kBufferBytes - std::max(waiting_, end_) < bytes) return {};
  if (pieces_.size() - count_ < kReferencesMax + 2) return {};
  return {&out_[end_], bytes};
}

void TcpStream::add(ByteSpan bytes) {
  if (bytes.empty()) return;
  waiting_ += bytes.size();
  if (count_ > first_) {
    iovec& last = pieces_[count_ - 1];
    if (static_cast<const std::byte*>(last.iov_base) + last.iov_len == bytes.data()) {
      last.iov_len += bytes.size();
      return;
    }
  }
  VERBATIM_ASSERT(count_ < pieces_.size());
  pieces_[count_++] = {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

void TcpStream::commit(std::size_t bytes) {
  add({&out_[end_], bytes});
  end_ += bytes;
}

void TcpStream::append_by_reference(ByteSpan bytes) {
  has_references_ = true;
  add(bytes);
}

void TcpStream::on_sent(std::size_t bytes) {
  waiting_ -= bytes;
  while (bytes > 0) {
    iovec& piece = pieces_[first_];
    const std::size_t part = std::min(bytes, piece.iov_len);
    piece = {static_cast<std::byte*>(piece.iov_base) + part, piece.iov_len - part};
    if (piece.iov_len == 0) ++first_;
    bytes -= part;
  }
}

int TcpStream::send() {
  while (waiting_ > 0) {
    msghdr message{};
    message.msg_iov = &pieces_[first_];
    message.msg_iovlen = count_ - first_;
    const ssize_t sent = sendmsg(fd_.get(), &message, MSG_NOSIGNAL);
    if (sent >= 0) {
      on_sent(static_cast<std::size_t>(sent));
    } else if (errno != EINTR) {
      const int error = errno;
      copy_referenced();
      return error;
    }
  }
  has_references_ = false;
  return 0;
}

void TcpStream::copy_referenced() {
  if (!std::exchange(has_references_, false)) return;
  end_ = 0;
  for (const iovec& piece : std::span(pieces_).subspan(first_, count_ - first_)) {
    std::memcpy(&spare_[end_], piece.iov_base, piece.iov_len);
    end_ += piece.iov_len;
  }
  out_.swap(spare_);
  pieces_[0] = {out_.get(), waiting_};
  first_ = 0;
  count_ = waiting_ > 0 ? 1 : 0;
}

int TcpStream::receive() {
  may_have_more_ = false;
  if (taken_ == arrived_) taken_ = arrived_ = 0;
  if (arrived_ > kBufferBytes / 2) {
    std::memmove(&in_[0], &in_[taken_], arrived_ - taken_);
    arrived_ -= taken_;
    taken_ = 0;
  }
  const std::size_t room = kBufferBytes - arrived_;
  if (room == 0) return 0;
  for (;;) {
    const ssize_t got = recv(fd_.get(), &in_[arrived_], room, MSG_DONTWAIT);
    if (got == 0) return ENODATA;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    arrived_ += static_cast<std::size_t>(got);
    may_have_more_ = static_cast<std::size_t>(got) == room;
    return 0;
  }
}

void TcpStream::shut_down() { ::shutdown(fd_.get(), SHUT_WR); }

void TcpStream::reset() {
  const linger at_once{.l_onoff = 1, .l_linger = 0};
  setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  fd_.reset();
}

}  // namespace verbatim::link
