#include "ulp/rds/local/bell.h"

#include <cerrno>

#include <sys/socket.h>

#include "ulp/rds/local/client.h"

namespace verbatim::ulp::rds::local {
namespace {

// What the lock does not order needs no order.
constexpr auto kRelaxed = std::memory_order_relaxed;

}  // namespace

Rung ring(int fd, Inbox& inbox) {
  if (inbox.is_empty()) {
    // Its sender was killed before the message was there, or another reader has taken it.
    inbox.wants_bell.store(1, kRelaxed);
    return Rung::done;
  }
  if (inbox.is_rung.load(kRelaxed) != 0) return Rung::done;
  const Head head{.kind = Kind::bell};
  if (::send(fd, &head, sizeof head, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) return Rung::later;
  inbox.is_rung.store(1, kRelaxed);
  inbox.wants_bell.store(0, kRelaxed);
  return Rung::done;
}

Rung ring_soon(int fd, Inbox& inbox) {
  if (!inbox.lock_soon()) return Rung::later;
  const Rung rung = ring(fd, inbox);
  inbox.lock.unlock();
  return rung;
}

bool may_sleep_on(const Inbox& inbox) {
  return !inbox.is_empty() && inbox.wants_bell.load(kRelaxed) != 0;
}

bool lie_down(Inbox& inbox) {
  const Locked locked(inbox);
  if (!inbox.is_empty()) return false;
  inbox.sleepers.fetch_add(1, kRelaxed);
  inbox.wants_bell.store(1, kRelaxed);
  return true;
}

void get_up(int fd, Inbox& inbox, bool is_readable) {
  const Locked locked(inbox);
  inbox.sleepers.fetch_sub(1, kRelaxed);
  // A reader that was killed in `silence` has left a packet.
  if (is_readable && inbox.is_rung.load(kRelaxed) == 0) receive_packet(fd, MSG_DONTWAIT);
}

void silence(int fd, Inbox& inbox) {
  if (inbox.is_rung.load(kRelaxed) == 0) return;
  if (inbox.sleepers.load(kRelaxed) != 0) inbox.wants_bell.store(1, kRelaxed);
  inbox.is_rung.store(0, kRelaxed);
  receive_packet(fd, MSG_DONTWAIT);
}

ssize_t receive_packet(int fd, int flags) {
  Head head;
  iovec piece{&head, sizeof head};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  const ssize_t got = calls().recvmsg(fd, &message, flags);
  return got < 0 && errno == ECONNRESET ? 0 : got;
}

}  // namespace verbatim::ulp::rds::local
