#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include <sys/uio.h>

#include "base/bytes.h"
#include "base/os/spin_lock.h"
#include "ulp/rds/local/protocol.h"

/// Messages that a program has not read: a ring in memory that a socket's program, its broker and
/// programs of the same user and machine that send to it have in common. A message is a `Head` and
/// its bytes. The file cannot shrink. Whoever maps it may be stopped or killed at any instruction,
/// and may write anything: each side checks what it reads, and nothing outside of the ring is ever
/// touched.
namespace verbatim::ulp::rds::local {

class Inbox {
 public:
  static constexpr std::uint32_t kCapacity = 4 << 20;  // A power of two.

  // What is in the file. Zeros are an empty inbox. Fields without a word are the lock's.
  SpinLock lock;
  /// Bytes that were ever taken, and ever put, modulo 2^32: in one word, so that none who ends
  /// between two stores leaves half of it.
  std::atomic<std::uint64_t> cursors;
  std::atomic<std::uint32_t> limit;      // SO_RCVBUF, of which one message may be more.
  std::atomic<std::uint32_t> is_closed;  // Nothing is put in any more.
  std::atomic<std::uint32_t> is_held;    // The broker has messages that come first.
  /// A reader sleeps, or will, and no bell is on its way: who puts something in sends one first.
  std::atomic<std::uint32_t> wants_bell;
  std::atomic<std::uint32_t> is_rung;  // The socket is readable. Who empties the inbox reads it.
  std::atomic<std::uint32_t> sleepers;
  std::atomic<std::uint32_t> wants_room;  // No lock. The broker: a reader tells it of room.
  /// No lock. Messages that the program has given to the broker, and those of them that have come
  /// to their end: if all have, the next may go past the broker.
  std::atomic<std::uint64_t> submitted, finished;

  enum class Put : std::uint8_t { done, no_bell, no_room };
  /// Requires the lock. If a reader sleeps, `send_bell` is called before the message is there, and
  /// returns whether a bell is on its way to the broker; otherwise nothing is put.
  template <typename SendBell>
  Put put(const Head& head, std::span<const ByteSpan> pieces, SendBell&& send_bell) {
    if (!has_room(head.bytes)) return Put::no_room;
    if (wants_bell.load(std::memory_order_relaxed) != 0) {
      if (!send_bell()) return Put::no_bell;
      wants_bell.store(0, std::memory_order_relaxed);
    }
    append(head, pieces);
    return Put::done;
  }

  struct Taken {
    Head head;
    std::size_t copied = 0;
  };
  enum class Take : std::uint8_t { done, empty, broken, busy };
  /// Requires the lock. Copies the first message's bytes into the pieces, as far as there is room.
  Take take(Taken& taken, const iovec* pieces, std::size_t count, bool stays);

  bool is_empty() const { return used() == 0; }
  std::uint32_t used() const;
  /// Gives up after a while: the owner may be stopped.
  bool lock_soon();

 private:
  static std::uint32_t bytes_of(std::uint32_t message);
  bool has_room(std::uint32_t message) const;
  void append(const Head& head, std::span<const ByteSpan> pieces);
  void write(std::uint32_t at, const void* from, std::size_t bytes);
  void read(std::uint32_t at, void* to, std::size_t bytes) const;

  alignas(64) std::array<std::byte, kCapacity> bytes_;
};

/// Marks that this thread has the inbox's lock, or is about to take it: a signal's handler, which
/// runs in the midst of that, must not wait for it.
class Holding {
 public:
  explicit Holding(const Inbox& inbox) : before_(held_) { held_ = &inbox; }
  ~Holding() { held_ = before_; }
  Holding(const Holding&) = delete;
  Holding& operator=(const Holding&) = delete;
  static bool is_held(const Inbox& inbox) { return held_ == &inbox; }

 private:
  static constinit thread_local const Inbox* volatile held_;
  const Inbox* const before_;
};

/// Takes the lock for a scope. Naps while the owner is stopped. False: this thread has it already,
/// below the signal's handler that runs.
class Locked {
 public:
  explicit Locked(Inbox& inbox);
  ~Locked() {
    if (is_locked_) inbox_.lock.unlock();
  }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  explicit operator bool() const { return is_locked_; }

 private:
  Inbox& inbox_;
  const bool is_locked_;
  const Holding holding_;
};

/// A new file for an inbox, or -1. The caller closes it.
int create_inbox();
/// Maps the file, if it is one; null if not. Ends with `unmap`.
Inbox* map_inbox(int file);
void unmap(Inbox* inbox);

}  // namespace verbatim::ulp::rds::local
