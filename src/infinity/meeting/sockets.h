#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include <sys/socket.h>

#include "base/os/unique_fd.h"

/// TCP sockets. All functions block and throw `Error`.
namespace infinity::detail {

class Socket : public verbatim::UniqueFd {
 public:
  using UniqueFd::UniqueFd;

  void send(std::span<const std::byte> bytes) const;
  /// Receives until `bytes` is full.
  void receive(std::span<std::byte> bytes) const;
  /// Sets how long `receive` waits for each part; initially without limit.
  void limit(std::chrono::seconds patience) const;
  sockaddr_storage local_address() const;
  sockaddr_storage peer_address() const;
};

/// Tries each address of the host in turn.
Socket connect_to(const char* host, std::uint16_t port);
/// Listens at all IPv4 addresses and, if the machine has it, IPv6.
Socket listen_at(std::uint16_t port);
Socket accept_from(int listener);

}  // namespace infinity::detail
