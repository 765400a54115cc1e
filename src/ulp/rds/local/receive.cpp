// A program's side of its inbox.
#include <cerrno>

#include <fcntl.h>
#include <sched.h>

#include "base/processor.h"
#include "base/time.h"
#include "ulp/rds/local/bell.h"
#include "ulp/rds/local/client.h"

namespace verbatim::ulp::rds::local {
namespace {

/// A sleep and a wake-up cost about as much.
constexpr TimeNs kSpin = 20 * kMicrosecond;
/// Who polls without waiting looks now and then whether the broker lives, and lets others run:
/// there may be more who poll than processors.
constexpr unsigned kPollsPerLook = 1024, kPollsPerYield = 128;

int fail(int error) {
  errno = error;
  return -1;
}

Inbox::Take take(int fd, Inbox& inbox, const iovec* pieces, std::size_t count, bool stays,
                 Inbox::Taken& taken) {
  Inbox::Take result{};
  {
    const Locked locked(inbox);
    if (!locked) return Inbox::Take::busy;
    result = inbox.take(taken, pieces, count, stays);
    if (inbox.is_empty()) silence(fd, inbox);
  }
  const bool has_room = inbox.used() <= inbox.limit.load(std::memory_order_relaxed) / 2;
  if (has_room && inbox.wants_room.load() != 0 && inbox.wants_room.exchange(0) != 0)
    tell(fd, Kind::room, 0);
  return result;
}

bool spin(const Inbox& inbox) {
  const TimeNs end = monotonic_now() + kSpin;
  do {
    for (int i = 0; i < 64; ++i) {
      if (!inbox.is_empty()) return true;
      relax_processor();
    }
  } while (monotonic_now() < end);
  return false;
}

/// Until there is something, or the socket's time is over. Signals end it as they end any receive.
int sleep(int fd, Inbox& inbox) {
  if (!lie_down(inbox)) return 0;
  const ssize_t got = receive_packet(fd, MSG_PEEK);
  const int error = errno;
  get_up(fd, inbox, got > 0);
  if (got == 0) return fail(ENETDOWN);
  return got < 0 ? fail(error) : 0;
}

int nothing_yet(int fd) {
  static thread_local unsigned polls = 0;
  if (polls % kPollsPerYield == 0) sched_yield();
  if (++polls % kPollsPerLook == 0 && has_ended(fd)) return fail(ENETDOWN);
  return fail(EAGAIN);
}

}  // namespace

Inbox* open_inbox(int fd, const Address& bound, std::uint64_t* number) {
  Answer answer;
  int file = -1;
  if (ask(fd, {.ask = Ask::inbox, .address = bound}, nullptr, answer, nullptr, 0, &file) < 0)
    return nullptr;
  Inbox* const inbox = file < 0 ? nullptr : map_inbox(file);
  if (file >= 0) calls().close(file);
  if (number != nullptr) *number = answer.value;
  return inbox;
}

bool has_ended(int fd) { return receive_packet(fd, MSG_PEEK | MSG_DONTWAIT) == 0; }

bool tell(int fd, Kind kind, std::uint64_t value) {
  Head head{.kind = kind, .value = value};
  iovec piece{&head, sizeof head};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  const int error = errno;
  const bool is_told = calls().sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
  errno = error;
  return is_told;
}

void arm(int fd, Inbox& inbox) {
  {
    const Locked locked(inbox);
    inbox.sleepers.fetch_add(1, std::memory_order_relaxed);
    if (inbox.is_rung.load(std::memory_order_relaxed) != 0) return;
    inbox.wants_bell.store(1, std::memory_order_relaxed);
    if (inbox.is_empty()) return;
  }
  // If the socket is full, the broker looks after it has read from it.
  tell(fd, Kind::bell, 0);
}

void disarm(Inbox& inbox) { inbox.sleepers.fetch_sub(1, std::memory_order_relaxed); }

ssize_t receive(int fd, Inbox& inbox, const iovec* pieces, std::size_t count, int flags,
                Received& received) {
  for (;;) {
    Inbox::Taken taken;
    const auto result = take(fd, inbox, pieces, count, (flags & MSG_PEEK) != 0, taken);
    if (result == Inbox::Take::broken) return fail(ENETDOWN);
    if (result == Inbox::Take::busy) return fail(EAGAIN);  // Also of one that may wait: for itself.
    if (result == Inbox::Take::done) {
      received.head = taken.head;
      received.is_cut = taken.copied < taken.head.bytes;
      return static_cast<ssize_t>((flags & MSG_TRUNC) != 0 ? taken.head.bytes : taken.copied);
    }
    if ((flags & MSG_DONTWAIT) != 0 || (calls().fcntl(fd, F_GETFL) & O_NONBLOCK) != 0)
      return nothing_yet(fd);
    if (!spin(inbox) && sleep(fd, inbox) < 0) return -1;
  }
}

}  // namespace verbatim::ulp::rds::local
