#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include <netdb.h>

#include "base/os/unique_fd.h"
#include "verbatim/result.h"

namespace verbatim::inline v1::detail {

/// The end of a call's time; none if the time was negative.
class Deadline {
 public:
  using Clock = std::chrono::steady_clock;
  explicit Deadline(std::chrono::milliseconds timeout)
      : end_(Clock::now() + timeout), is_endless_(timeout < timeout.zero()) {}
  /// In the form of poll(2).
  int left_ms() const;

 private:
  Clock::time_point end_;
  bool is_endless_;
};

struct FreeAddresses {
  void operator()(addrinfo* addresses) const { freeaddrinfo(addresses); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

/// Returns the addresses of a host; for an empty name with `is_passive`, all local ones.
Result<Addresses> look_up(Call call, const std::string& host, std::uint16_t port, bool is_passive);

using Socket = UniqueFd;

Result<Socket> connect_tcp(Call call, const std::string& host, std::uint16_t port,
                           const std::string& source, const Deadline& deadline);
Result<Socket> listen_tcp(Call call, const std::string& address, std::uint16_t port, int backlog);
Result<Socket> accept_tcp(Call call, int listener, const Deadline& deadline);

/// Transfer all bytes or fail: `timed_out`, or `disconnected` if the other side closes first. The
/// socket may be blocking or not.
Result<void> send_all(Call call, int socket, std::span<const std::byte> bytes,
                      const Deadline& deadline);
Result<void> receive_all(Call call, int socket, std::span<std::byte> bytes,
                         const Deadline& deadline);

}  // namespace verbatim::inline v1::detail
