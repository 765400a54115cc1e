// An open stream rsocket: bytes, readiness, its end.
#include "ulp/rsocket/stream.h"

#include <cerrno>

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>

namespace verbatim::rsocket {
namespace {

/// Calls that never wait must also notice that the peer was killed.
constexpr unsigned kTurnsBetweenEvents = 64;

/// How long the peer may take to read what is lent to it, before it is asked for.
constexpr TimeNs kLongestLoan = kSecond;

/// When a call that begins now ends by its time limit.
TimeNs end_of(const timeval& limit) {
  if (limit.tv_sec == 0 && limit.tv_usec == 0) return kNever;
  return monotonic_now() + limit.tv_sec * kSecond + limit.tv_usec * kMicrosecond;
}

}  // namespace

/// Returns true if there was an event of data.
bool Stream::process(bool surely) {
  if (!endpoint_ || phase_ != Phase::open) return false;
  if (!has_ended_) has_ended_ = is_over() && !is_lost();
  const std::uint32_t urgents = endpoint_->urgents();
  const bool was_there = endpoint_->process(surely);
  const bool has_room = wants_room_ && can_write();
  if (has_room) wants_room_ = false;
  if (has_room) note_edge();
  if (arrivals_ == endpoint_->arrivals()) return was_there;
  note_edge(endpoint_->arrived_at());
  arrivals_ = endpoint_->arrivals();
  if (endpoint_->urgents() != urgents && owner != 0) kill(owner, SIGURG);
  return was_there;
}

void Stream::arm_locked() {
  if (endpoint_) endpoint_->arm();
}

void Stream::wake_locked(bool surely) {
  if (phase_ == Phase::open) {
    // Events of the connection are rare, and reading them costs a system call.
    const bool was_data = process(surely);
    if ((surely && !was_data) || ++idle_turns_ % kTurnsBetweenEvents == 0) take_events();
    return;
  }
  take_events();
  if (!pending_accepts_.empty()) poll_pending_accepts();
  poll_companion();
  if (endpoint_ && phase_ == Phase::opening && !active_) {
    endpoint_->process(surely);
    if (endpoint_->has_data()) phase_ = Phase::open;  // Data was faster than the RTU.
  }
  process(surely);
}

void Stream::arm() {
  std::unique_lock lock(mutex_);
  arm_locked();
}

bool Stream::armed_locked() const { return !endpoint_ || endpoint_->armed(); }

bool Stream::armed() {
  std::unique_lock lock(mutex_);
  return armed_locked();
}

bool Stream::may_be_quick() {
  std::unique_lock lock(mutex_);
  return may_be_quick_locked();
}

void Stream::wake() {
  std::unique_lock lock(mutex_);
  wake_locked(true);
}

bool Stream::is_up() const {
  return !disconnected_ && !endpoint_->peer_gone() && !endpoint_->broken();
}

/// A peer that was killed has closed its connections, as with TCP, where nothing is lost after both
/// ends.
bool Stream::is_lost() const {
  if (has_ended_) return false;
  const bool has_left = endpoint_->peer_gone() || disconnected_;
  return endpoint_->was_reset() || (endpoint_->broken() && !has_left);
}

bool Stream::has_error() const { return is_lost() && !error_told_; }

/// As TCP, tells a reset once: to the call that finds it first; EPIPE after the peer's end.
int Stream::take_error(int otherwise) {
  if (!has_error()) return otherwise;
  error_told_ = true;
  return endpoint_->peer_shut() ? EPIPE : ECONNRESET;
}

Outcome<void> Stream::check_open(std::unique_lock<std::mutex>& lock, bool may_wait, int flags) {
  if (is_handed_over() && (flags & ulp::sockets::kRelayed) == 0) return fail(ESTALE);
  if (phase_ == Phase::opening) {
    if (auto ok = finish_opening(lock, may_wait); !ok) return ok;
  }
  return phase_ == Phase::open ? Outcome<void>{} : fail(ENOTCONN);
}

Outcome<std::size_t> Stream::receive(const Message& message) {
  std::unique_lock lock(mutex_);
  const bool may_wait = waits(message.flags);
  const TimeNs end = end_of(receive_limit_);
  if (auto ok = check_open(lock, may_wait, message.flags); !ok) return fail(ok.error());
  if ((message.flags & MSG_OOB) != 0) return receive_urgent(message);
  Cursor to(message.pieces);
  endpoint_->prepare_read(to.left(), (message.flags & MSG_PEEK) != 0);
  std::size_t total = 0;
  if (to.left() > 0 && (message.flags & MSG_PEEK) == 0) endpoint_->pass_urgent();
  do {
    // As TCP, a read of nothing succeeds if only an urgent byte is there, which it does not pass.
    const bool is_empty = to.left() == 0;
    const auto done = [&] {
      return can_read() || !is_up() || (is_empty && endpoint_->has_unread());
    };
    if (!endpoint_->has_data()) {
      if (auto ok = wait_until(lock, may_wait, done, end); !ok) {
        return total > 0 ? Outcome<std::size_t>(total) : fail(ok.error());
      }
    }
    if ((message.flags & MSG_PEEK) != 0) return endpoint_->peek(to);
    const std::size_t bytes = endpoint_->receive(to);
    total += bytes;
    if (bytes == 0 && total == 0 && endpoint_->was_reset() && !endpoint_->peer_shut()) {
      if (const int error = take_error(0); error != 0) return fail(error);
    }
    if (bytes == 0 || endpoint_->is_at_mark()) break;  // The end, or the urgent mark.
  } while ((message.flags & MSG_WAITALL) != 0 && to.left() > 0);
  return total;
}

/// As TCP: EINVAL if no urgent byte has come, or it stays in the stream.
Outcome<std::size_t> Stream::receive_urgent(const Message& message) {
  process();
  Cursor to(message.pieces);
  if (to.left() == 0) return 0;
  const auto byte = endpoint_->urgent((message.flags & MSG_PEEK) != 0);
  if (!byte) return fail(EINVAL);
  to.write(&*byte, 1);
  return 1;
}

Outcome<std::size_t> Stream::send(const Message& message) {
  std::unique_lock lock(mutex_);
  const bool may_wait = waits(message.flags);
  if (auto ok = check_open(lock, may_wait, message.flags); !ok) return fail(ok.error());
  if ((message.flags & MSG_OOB) != 0 && !endpoint_->has_urgent()) {
    return unsupported(kNoUrgentData);
  }
  Cursor from(message.pieces);
  return send_all(lock, from, message.flags, nullptr);
}

Outcome<void> Stream::send_rest_of_map(std::unique_lock<std::mutex>& lock, bool may_wait) {
  while (endpoint_->has_mappings_to_send()) {
    if (auto ok = wait_until(lock, may_wait, [this] { return can_write(); }); !ok) return ok;
    if (!writable_ || !is_up()) return fail(ECONNRESET);
    if (auto ok = endpoint_->send_mappings(); !ok) return ok;
  }
  return {};
}

/// Lends the user's buffer, and waits until the peer has read it or does without. Returns how many
/// bytes it has.
std::size_t Stream::send_lent(std::unique_lock<std::mutex>& lock, Cursor& from) {
  if (!endpoint_->lend(from.piece())) return 0;
  const auto is_back = [this] { return !endpoint_->is_lent() || !is_up(); };
  auto ok = wait_until(lock, true, is_back, monotonic_now() + kLongestLoan);
  while (!ok) {  // It takes long, or there was a signal.
    endpoint_->reclaim();
    ok = wait_until(lock, true, is_back);
  }
  const std::size_t bytes = endpoint_->take_back();
  from.skip(bytes);
  return bytes;
}

/// Sends to the stream or, with `offset`, to the buffer that the peer mapped there.
Outcome<std::size_t> Stream::send_all(std::unique_lock<std::mutex>& lock, Cursor& from, int flags,
                                      off_t* offset) {
  const bool may_wait = waits(flags);
  const TimeNs end = end_of(send_limit_);
  if (auto ok = send_rest_of_map(lock, may_wait); !ok) return fail(ok.error());
  if (!writable_) return fail(EPIPE);
  std::size_t total = 0;
  std::size_t most = endpoint_->first_transfer();
  bool lends = may_wait && offset == nullptr && (flags & MSG_OOB) == 0;
  while (from.left() > 0) {
    int error = 0;
    if (lends && writable_ && is_up() && endpoint_->may_lend(from.piece().size())) {
      const std::size_t wanted = from.piece().size();
      const std::size_t sent = send_lent(lock, from);
      total += sent;
      lends = sent == wanted;
      continue;
    }
    if (!endpoint_->can_send()) {
      wants_room_ = true;
      auto ok = wait_until(lock, may_wait, [this] { return can_write(); }, end);
      if (!ok) error = ok.error();
    }
    if (error == 0 && !writable_) error = EPIPE;
    if (error == 0 && !is_up()) error = take_error(EPIPE);
    if (error != 0) return total > 0 ? Outcome<std::size_t>(total) : fail(error);
    const std::size_t limit = from.left() > most ? most : from.left();
    most = std::min<std::size_t>(most * 2, kMostTransfer);
    const auto sent = offset == nullptr ? endpoint_->send_some(from, limit, (flags & MSG_OOB) != 0)
                                        : endpoint_->write_some(from, limit, *offset);
    if (!sent) return total > 0 ? Outcome<std::size_t>(total) : fail(ECONNRESET);
    if (*sent == 0) break;  // No buffer is mapped there.
    if (offset != nullptr) *offset += static_cast<off_t>(*sent);
    total += *sent;
    if (from.left() > 0) process();
  }
  return total;
}

short Stream::ready(short events) {
  std::unique_lock lock(mutex_);
  if (is_handed_over()) return POLLNVAL;
  wake_locked(false);
  return state(events);
}

short Stream::look(short events) {
  std::unique_lock lock(mutex_);
  process(false);
  return state(events);
}

std::size_t Stream::bytes_to_read() {
  std::unique_lock lock(mutex_);
  process(false);
  return endpoint_ ? endpoint_->bytes_to_read() : 0;
}

bool Stream::is_at_mark() {
  std::unique_lock lock(mutex_);
  process(false);
  return endpoint_ && endpoint_->is_at_mark();
}

short Stream::state(short events) {
  short found = 0;
  switch (phase_) {
    case Phase::fresh:
      return static_cast<short>((events & POLLOUT) | POLLHUP);
    case Phase::listening:
      return accepted_.empty() ? 0 : events & POLLIN;
    case Phase::opening:
      return 0;
    case Phase::failed:
      found = (events & (POLLIN | POLLOUT | POLLRDHUP)) | POLLHUP;
      return error_ != 0 ? found | POLLERR : found;
    case Phase::open:
      if (can_read() || !is_up()) found |= POLLIN | POLLRDNORM;
      wants_room_ = !can_write();
      if (!wants_room_) found |= POLLOUT | POLLWRNORM;
      if (endpoint_->is_urgent()) found |= POLLPRI;
      if (!readable_ || endpoint_->peer_shut() || !is_up()) found |= POLLRDHUP;
      found &= events;
      if (has_error()) found |= POLLERR;
      if (is_over() || (!writable_ && !readable_)) found |= POLLHUP;
      return found;
  }
  return 0;
}

Outcome<void> Stream::shut_down(int how) {
  std::unique_lock lock(mutex_);
  if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR) return fail(EINVAL);
  process();
  if (phase_ != Phase::open || is_over()) return fail(ENOTCONN);
  return end(lock, how);
}

Outcome<void> Stream::end(std::unique_lock<std::mutex>& lock, int how) {
  const bool was_writable = writable_;
  if (how != SHUT_WR) readable_ = false;
  if (how != SHUT_RD) writable_ = false;
  const bool gone = !readable_ && !writable_;
  if (!gone && (how == SHUT_RD || !was_writable)) return {};
  // A peer that neither sends nor receives still learns this side's end.
  const auto has_peer = [&] {
    return gone ? is_up() : !disconnected_ && !endpoint_->was_reset() && !endpoint_->broken();
  };
  if (disconnect_sent_ || !has_peer()) return {};
  const auto done = [&] { return endpoint_->can_finish() || !has_peer(); };
  if (auto ok = wait_until(lock, true, done); !ok) return ok;
  if (!has_peer()) return {};
  disconnect_sent_ = gone;
  if (auto ok = endpoint_->finish(gone); !ok) {
    return {};  // The peer is gone; no error can be reported.
  }
  if (!gone) return {};
  const auto sent = [this] {
    return endpoint_->all_sent() || endpoint_->broken() || disconnected_;
  };
  return wait_until(lock, true, sent);
}

/// As TCP: a close that leaves data unread is a reset.
void Stream::reset() {
  std::unique_lock lock(mutex_);
  process();
  if (phase_ != Phase::open || !is_up() ||
      (!(linger_.l_onoff != 0 && linger_.l_linger == 0) && !endpoint_->has_unread()))
    return;
  endpoint_->abort();
  const auto sent = [this] { return endpoint_->all_sent() || disconnected_; };
  static_cast<void>(wait_until(lock, true, sent));
}

void Stream::close() {
  reset();
  std::unique_lock lock(mutex_);
  if (phase_ == Phase::open && !disconnect_sent_) static_cast<void>(end(lock, SHUT_RDWR));
  // A connection that was asked for and not answered ends with its id.
  if (phase_ == Phase::open || (phase_ == Phase::opening && !active_)) rdma_disconnect(id_);
}

Outcome<off_t> Stream::map(void* buffer, std::size_t bytes, int protection, off_t offset) {
  std::unique_lock lock(mutex_);
  const bool met = phase_ == Phase::open || (phase_ == Phase::opening && !active_);
  if (!met || (protection & ~PROT_WRITE) != 0) return fail(EINVAL);
  return endpoint_->map(buffer, bytes, (protection & PROT_WRITE) != 0, offset);
}

Outcome<void> Stream::unmap(void* buffer, std::size_t bytes) {
  std::unique_lock lock(mutex_);
  return endpoint_ ? endpoint_->unmap(buffer, bytes) : fail(EINVAL);
}

Outcome<std::size_t> Stream::write_mapped(const void* from, std::size_t bytes, off_t offset,
                                          int flags) {
  std::unique_lock lock(mutex_);
  if (auto ok = check_open(lock, waits(flags), flags); !ok) return fail(ok.error());
  const iovec piece{const_cast<void*>(from), bytes};
  Cursor cursor({&piece, 1});
  return send_all(lock, cursor, flags, &offset);
}

}  // namespace verbatim::rsocket
