#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include <fcntl.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/os/unique_fd.h"
#include "base/time.h"
#include "ulp/rsocket/protocol.h"
#include "ulp/sockets/source.h"

namespace verbatim::rsocket {

/// Several descriptors as one that is readable if any of them is. Its number is the rsocket's fd.
class Handle {
 public:
  static Outcome<Handle> make();
  Outcome<void> add(int fd);
  void remove(int fd);
  /// Some of those that are readable; later calls name the others.
  std::vector<int> ready() const;
  int number() const { return epoll_.get(); }
  /// Becomes `number`, a duplicate, and leaves the earlier descriptor.
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

/// A stream or datagram rsocket, with the calls of rsocket(7). Every call locks the socket. Calls
/// that wait release the lock meanwhile, so that one thread can send while another receives.
class Socket : public ulp::sockets::Source {
 public:
  int number() const { return handle_.number(); }
  int handle() const override { return number(); }
  bool is_closed() const override { return closed; }
  void move_to(int number);
  virtual int type() const = 0;

  virtual Outcome<void> bind(const sockaddr* address, socklen_t length) = 0;
  virtual Outcome<void> listen(int backlog) = 0;
  /// What accept(2) returns: a socket, or a plain one of the listener's companion.
  struct Accepted {
    std::shared_ptr<Socket> socket;
    UniqueFd plain;
  };
  virtual Outcome<Accepted> accept() = 0;
  /// A listener accepts the connections of this TCP listener, too.
  virtual Outcome<void> accompany(UniqueFd /*listener*/) { return fail(EINVAL); }
  virtual Outcome<void> connect(const sockaddr* address, socklen_t length) = 0;
  virtual Outcome<void> shut_down(int how) = 0;
  /// Disconnects from the peer. Called before the last reference is dropped.
  virtual void close() = 0;

  virtual Outcome<std::size_t> send(const Message& message) = 0;
  virtual Outcome<std::size_t> receive(const Message& message) = 0;

  /// As `look`, for a caller that does not watch the handle: also takes the events of connections.
  virtual short ready(short events) = 0;

  virtual Outcome<void> name(sockaddr* address, socklen_t* length, bool peer) = 0;
  /// As `verbatim_rport` and `verbatim_rpeer_port`.
  virtual void set_port(std::uint16_t) {}
  virtual std::uint16_t peer_port() { return 0; }
  /// The next byte to read is the urgent one, or the one behind it.
  virtual bool is_at_mark() { return false; }
  /// Names that are not the connection's.
  virtual void set_names(const sockaddr_storage&, const sockaddr_storage&) {}
  virtual Outcome<void> set_option(int level, int option, const void* value, socklen_t length) = 0;
  virtual Outcome<void> get_option(int level, int option, void* value, socklen_t* length) = 0;
  virtual Outcome<off_t> map(void* buffer, std::size_t bytes, int protection, off_t offset) = 0;
  virtual Outcome<void> unmap(void* buffer, std::size_t bytes) = 0;
  virtual Outcome<std::size_t> write_mapped(const void* from, std::size_t bytes, off_t offset,
                                            int flags) = 0;

  /// O_NONBLOCK and other flags of F_SETFL; flags of F_SETFD.
  std::atomic<int> status_flags{0};
  std::atomic<int> descriptor_flags{0};
  /// F_SETOWN: the process, or with a minus the group, that gets SIGURG; 0: none.
  std::atomic<int> owner{0};
  /// The handle's descriptor and its duplicates. Protected by the fd table's lock.
  std::vector<int> numbers;
  std::atomic<bool> closed{false};  // There are none any more.

 protected:
  explicit Socket(Handle handle) : handle_(std::move(handle)) {}
  bool waits(int flags) const {
    return (status_flags & O_NONBLOCK) == 0 && (flags & MSG_DONTWAIT) == 0;
  }
  /// Waits until `done` returns true. `done` may use the socket and is called under `lock`. EAGAIN
  /// for a non-blocking call and at `end`, EINTR after a signal.
  template <typename Done>
  Outcome<void> wait_until(std::unique_lock<std::mutex>& lock, bool may_wait, Done&& done,
                           TimeNs end = kNever);
  /// Waits once, at most until `end`.
  Outcome<void> wait_once(std::unique_lock<std::mutex>& lock, TimeNs end);
  virtual void process() = 0;  // Handles completions.
  virtual void arm_locked() = 0;
  virtual bool armed_locked() const = 0;
  virtual bool may_be_quick_locked() const { return true; }
  /// Handles completions and events: always if `surely`, else only if they are awaited.
  virtual void wake_locked(bool surely) = 0;

  std::mutex mutex_;
  Handle handle_;

 private:
  std::condition_variable changed_;
  bool somebody_waits_ = false;
};

/// Time that calls spin before they wait (`polling_time` of rsocket(7)).
inline constexpr TimeNs kSpin = 10 * kMicrosecond;

/// Then they give the processor away as often: being woken costs the peer a system call, and this
/// process two thread switches.
inline constexpr int kYields = 4;

template <typename Done>
Outcome<void> Socket::wait_until(std::unique_lock<std::mutex>& lock, bool may_wait, Done&& done,
                                 TimeNs end) {
  wake_locked(false);
  if (done()) return {};
  if (!may_wait) return fail(EAGAIN);
  const TimeNs until = monotonic_now() + kSpin;
  int yields = kYields;
  while (may_be_quick_locked() && (monotonic_now() < until || yields > 0)) {
    if (monotonic_now() >= until) {
      --yields;
      sched_yield();
    }
    process();
    if (done()) return {};
  }
  for (;;) {
    arm_locked();
    process();
    if (done()) return {};
    if (!armed_locked()) continue;  // An event has arrived meanwhile.
    if (auto ok = wait_once(lock, end); !ok) return ok;
    if (is_handed_over()) return fail(ESTALE);
    wake_locked(true);
    if (done()) return {};
    if (monotonic_now() >= end) return fail(EAGAIN);
  }
}

/// The fd table of this process's rsockets.
std::shared_ptr<Socket> find(int number);
void enter(std::shared_ptr<Socket> socket);
/// Removes an fd. Returns the socket, to be closed, if this was its last fd, else null. EBADF.
Outcome<std::shared_ptr<Socket>> take_out(int number);

/// What carries a stream's bytes.
enum class Protocol : std::uint8_t { rsocket, sdp };
Outcome<std::shared_ptr<Socket>> make_stream(Protocol protocol);
Outcome<std::shared_ptr<Socket>> make_datagram(int domain);

/// Copies an address out, as getpeername(2) does.
void copy_address(const sockaddr* from, sockaddr* to, socklen_t* length);
/// Reads an option that is an integer.
Outcome<int> integer_of(const void* value, socklen_t length);
Outcome<void> give_integer(int value, void* to, socklen_t* length);

}  // namespace verbatim::rsocket
