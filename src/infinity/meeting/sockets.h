#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include <sys/socket.h>

#include "base/os/unique_fd.h"

/// Plain TCP. Everything here blocks and throws `Error`.
namespace infinity::detail {

class Socket : public verbatim::UniqueFd {
 public:
  using UniqueFd::UniqueFd;

  void send(std::span<const std::byte> bytes) const;
  /// Fills it all.
  void receive(std::span<std::byte> bytes) const;
  /// How long `receive` waits for each part; for ever at first.
  void limit(std::chrono::seconds patience) const;
  sockaddr_storage local_address() const;
  sockaddr_storage peer_address() const;
};

/// To each address of the host in turn.
Socket connect_to(const char* host, std::uint16_t port);
/// On all addresses of IPv4 and, where the machine has it, IPv6.
Socket listen_at(std::uint16_t port);
Socket accept_from(int listener);

}  // namespace infinity::detail
