#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/os/unique_fd.h"
#include "base/time.h"
#include "ulp/rsocket/endpoint.h"
#include "ulp/rsocket/protocol.h"

namespace verbatim::rsocket {

/// Several descriptors as one, readable when one of them is. Its number is the rsocket's.
class Handle {
 public:
  static Outcome<Handle> make();
  Outcome<void> add(int fd);
  void remove(int fd);
  int number() const { return epoll_.get(); }
  /// It is `number` from now on, a duplicate, and leaves the descriptor that it was.
  void move_to(int number) {
    epoll_.release();
    epoll_.reset(number);
  }

 private:
  UniqueFd epoll_;
};

/// A message of sendmsg or recvmsg: buffers, flags, and the peer's address.
struct Message {
  std::span<const iovec> pieces;
  int flags = 0;
  sockaddr* address = nullptr;
  socklen_t* length = nullptr;
};

/// A stream or a datagram rsocket: what the calls of rsocket(7) do. Every call locks the socket;
/// those that wait let go of the lock meanwhile, so that one thread can send while another
/// receives.
class Socket {
 public:
  virtual ~Socket() = default;
  int number() const { return handle_.number(); }
  void move_to(int number);
  virtual int type() const = 0;

  virtual Outcome<void> bind(const sockaddr* address, socklen_t length) = 0;
  virtual Outcome<void> listen(int backlog) = 0;
  virtual Outcome<std::shared_ptr<Socket>> accept() = 0;
  virtual Outcome<void> connect(const sockaddr* address, socklen_t length) = 0;
  virtual Outcome<void> shut_down(int how) = 0;
  /// Before the last reference goes: says farewell.
  virtual void close() = 0;

  virtual Outcome<std::size_t> send(const Message& message) = 0;
  virtual Outcome<std::size_t> receive(const Message& message) = 0;

  /// What poll(2) would tell of these events, without waiting.
  virtual short ready(short events) = 0;
  /// From now on the handle becomes readable when something happens.
  virtual void arm() = 0;
  /// Whether it still will: a look at the socket takes the event that it finds.
  virtual bool armed() = 0;
  /// The handle has become readable: take what happened.
  virtual void wake() = 0;

  virtual Outcome<void> name(sockaddr* address, socklen_t* length, bool peer) = 0;
  virtual Outcome<void> set_option(int level, int option, const void* value, socklen_t length) = 0;
  virtual Outcome<void> get_option(int level, int option, void* value, socklen_t* length) = 0;
  virtual Outcome<off_t> map(void* buffer, std::size_t bytes, int protection, off_t offset) = 0;
  virtual Outcome<void> unmap(void* buffer, std::size_t bytes) = 0;
  virtual Outcome<std::size_t> write_mapped(const void* from, std::size_t bytes, off_t offset,
                                            int flags) = 0;

  /// O_NONBLOCK and what else F_SETFL set; F_SETFD's flags.
  std::atomic<int> status_flags{0};
  std::atomic<int> descriptor_flags{0};
  /// The handle's, and duplicates. Under the lock of the table of numbers.
  std::vector<int> numbers;

 protected:
  explicit Socket(Handle handle) : handle_(std::move(handle)) {}
  bool waits(int flags) const {
    return (status_flags & O_NONBLOCK) == 0 && (flags & MSG_DONTWAIT) == 0;
  }
  /// Waits until `done` says so, which may look at the socket and is called under `lock`. EAGAIN
  /// where the caller does not wait, EINTR after a signal.
  template <typename Done>
  Outcome<void> wait_until(std::unique_lock<std::mutex>& lock, bool may_wait, Done&& done);
  /// One step of waiting.
  Outcome<void> wait_once(std::unique_lock<std::mutex>& lock);
  virtual void process() = 0;  // Completions.
  virtual void arm_locked() = 0;
  virtual bool armed_locked() const = 0;
  /// Completions, and events: always where `surely`, else where they are awaited.
  virtual void wake_locked(bool surely) = 0;

  std::mutex mutex_;
  Handle handle_;

 private:
  std::condition_variable changed_;
  bool somebody_waits_ = false;
};

/// How long calls spin before they wait (`polling_time` of rsocket(7)).
inline constexpr TimeNs kSpin = 10 * kMicrosecond;

template <typename Done>
Outcome<void> Socket::wait_until(std::unique_lock<std::mutex>& lock, bool may_wait, Done&& done) {
  wake_locked(false);
  if (done()) return {};
  if (!may_wait) return fail(EAGAIN);
  const TimeNs until = monotonic_now() + kSpin;
  while (monotonic_now() < until) {
    process();
    if (done()) return {};
  }
  for (;;) {
    arm_locked();
    process();
    if (done()) return {};
    if (!armed_locked()) continue;  // Something came just now.
    if (auto ok = wait_once(lock); !ok) return ok;
    wake_locked(true);
    if (done()) return {};
  }
}

/// The rsockets of this process by number.
std::shared_ptr<Socket> find(int number);
void enter(std::shared_ptr<Socket> socket);
/// The socket, to be closed, where that was its last number, else null. EBADF.
Outcome<std::shared_ptr<Socket>> take_out(int number);

Outcome<std::shared_ptr<Socket>> make_stream();
Outcome<std::shared_ptr<Socket>> make_datagram(int domain);

/// Copies an address out as getpeername(2) does.
void copy_address(const sockaddr* from, sockaddr* to, socklen_t* length);
/// Options that are integers.
Outcome<int> integer_of(const void* value, socklen_t length);
Outcome<void> give_integer(int value, void* to, socklen_t* length);

}  // namespace verbatim::rsocket
