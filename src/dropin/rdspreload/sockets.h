#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/time.h"
#include "ulp/rds/local/client.h"

/// What the program has mapped of its RDS sockets. Any thread; a descriptor may be closed while
/// another thread reads from it.
namespace verbatim::rdspreload {

struct Socket {
  ulp::rds::local::Inbox* inbox = nullptr;
  ulp::rds::local::Address own{.ipv6 = {}};  // None: not known.
  std::atomic<TimeNs> by_broker_until{0};    // Waiting was in vain.
  std::atomic<std::uint32_t> descriptors{1};
  std::atomic<std::uint32_t> users{0};
};

/// The descriptor's socket, kept mapped for a scope. Null if its broker has ended (ENETDOWN).
class SocketUse {
 public:
  explicit SocketUse(int fd);
  ~SocketUse();
  SocketUse(const SocketUse&) = delete;
  SocketUse& operator=(const SocketUse&) = delete;
  explicit operator bool() const { return socket_ != nullptr; }
  /// The caller ends the use: `users` is one less then.
  Socket* keep() { return std::exchange(socket_, nullptr); }
  Socket* operator->() const { return socket_; }
  Socket& operator*() const { return *socket_; }
  ulp::rds::local::Inbox& inbox() const { return *socket_->inbox; }

 private:
  Socket* socket_;
};

/// Both descriptors are of one socket now.
void share_socket(int from, int to);
/// The descriptor is none of an RDS socket any more.
void drop_socket(int fd);
/// While the program waits for descriptors: those of sockets that have messages are readable. A
/// wait that never returns (longjmp) leaves them armed, which costs bells, but loses none.
class Waiting {
 public:
  Waiting();
  ~Waiting();
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  static constexpr std::size_t kArmedMax = 64;  // More stay armed.
  std::array<Socket*, kArmedMax> armed_;
  std::size_t count_ = 0;
};

}  // namespace verbatim::rdspreload
