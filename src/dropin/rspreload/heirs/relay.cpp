#include "dropin/rspreload/heirs/relay.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <poll.h>
#include <rdma/rsocket.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "dropin/rspreload/heirs/shadow.h"

// Calls in this file go to libc, by `Inside`.
namespace verbatim::rspreload {
namespace {

constexpr std::size_t kMostBytes = 65'536;

short state_of(int fd) {
  pollfd state{.fd = fd, .events = POLLRDHUP, .revents = 0};
  return poll(&state, 1, 0) > 0 ? state.revents : short{0};
}

/// Takes bytes out that were looked at.
void take(int fd, std::vector<std::byte>& room, std::size_t bytes) {
  [[maybe_unused]] const ssize_t taken = recv(fd, room.data(), bytes, MSG_DONTWAIT);
}

}  // namespace

Relay::Relay(int stream, std::shared_ptr<ulp::sockets::Source> source, UniqueFd shadow)
    : stream_(stream),
      source_(std::move(source)),
      shadow_(std::move(shadow)),
      coming_(kMostBytes),
      going_(kMostBytes) {}

Relay::~Relay() {
  shadow_.reset();
  rclose(stream_);
}

bool Relay::turn() {
  if (is_over_) return false;
  const bool came = to_programs();
  return (!is_over_ && to_peer()) || came;
}

short Relay::awaited() const {
  const bool has_room = begin_ == end_ && !peer_has_ended_ && !is_over_;
  return static_cast<short>((has_room ? POLLIN : 0) | (wants_room_ ? POLLOUT : 0));
}

bool Relay::to_programs() {
  if (peer_has_ended_) return false;
  if (begin_ == end_) {
    const ssize_t bytes =
        rrecv(stream_, coming_.data(), coming_.size(), MSG_DONTWAIT | ulp::sockets::kRelayed);
    if (bytes < 0) return errno == EAGAIN || errno == EINTR ? false : reset();
    if (bytes == 0) {
      peer_has_ended_ = true;
      shutdown(shadow_.get(), SHUT_WR);
      return true;
    }
    begin_ = 0;
    end_ = static_cast<std::size_t>(bytes);
  }
  const ssize_t sent =
      send(shadow_.get(), &coming_[begin_], end_ - begin_, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent > 0) begin_ += static_cast<std::size_t>(sent);
  // Nobody will read it, but it has come: TCP's buffer would take it, too.
  if (sent < 0 && errno == EPIPE && (state_of(shadow_.get()) & POLLHUP) == 0) begin_ = end_;
  return sent > 0;
}

bool Relay::to_peer() {
  if (programs_have_ended_) return end_with_programs();
  int waiting = 0;
  ioctl(shadow_.get(), FIONREAD, &waiting);
  if (waiting <= kGuardBytes) {
    if ((state_of(shadow_.get()) & (POLLRDHUP | POLLHUP)) == 0) return false;
    // What was written before the end is there now, if it was not then.
    ioctl(shadow_.get(), FIONREAD, &waiting);
    if (waiting > kGuardBytes) return true;
    programs_have_ended_ = true;
    if (!end_with_programs()) rshutdown(stream_, SHUT_WR);
    return true;
  }
  const std::size_t most = std::min(static_cast<std::size_t>(waiting), going_.size());
  const ssize_t seen = recv(shadow_.get(), going_.data(), most, MSG_PEEK | MSG_DONTWAIT);
  if (seen <= kGuardBytes) return false;
  const ssize_t sent =
      rsend(stream_, &going_[kGuardBytes], static_cast<std::size_t>(seen - kGuardBytes),
            MSG_DONTWAIT | MSG_NOSIGNAL | ulp::sockets::kRelayed);
  wants_room_ = sent < 0 && errno == EAGAIN;
  if (sent > 0) take(shadow_.get(), going_, static_cast<std::size_t>(sent));
  if (sent < 0 && errno == EPIPE) {  // The owner has ended this direction before.
    shutdown(shadow_.get(), SHUT_RD);
    return programs_have_ended_ = true;
  }
  return sent < 0 && !wants_room_ && errno != EINTR ? reset() : sent > 0;
}

/// Ends the connection if no process has the shadow any more. As with TCP, what nobody has read
/// makes a reset of it.
bool Relay::end_with_programs() {
  const bool both_ended = peer_has_ended_ && programs_have_ended_;
  if (!both_ended && (state_of(shadow_.get()) & POLLHUP) == 0) return false;
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(shadow_.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0 || begin_ != end_) {
    const linger none{.l_onoff = 1, .l_linger = 0};
    rsetsockopt(stream_, SOL_SOCKET, SO_LINGER, &none, sizeof none);
  }
  take(shadow_.get(), going_, kGuardBytes);  // An end, no reset.
  return is_over_ = true;
}

/// All who have the shadow will see a reset, by the guard that is left in it.
bool Relay::reset() { return is_over_ = true; }

}  // namespace verbatim::rspreload
