#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <sys/socket.h>

/// Plain TCP. Everything here blocks and throws `Error`.
namespace infinity::detail {

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Socket();

  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  explicit operator bool() const { return fd_ >= 0; }

  void send(std::span<const std::byte> bytes) const;
  /// Fills it all.
  void receive(std::span<std::byte> bytes) const;
  /// How long `receive` waits for each part; for ever at first.
  void limit(std::chrono::seconds patience) const;
  sockaddr_storage local_address() const;
  sockaddr_storage peer_address() const;

 private:
  int fd_ = -1;
};

/// To each address of the host in turn.
Socket connect_to(const char* host, std::uint16_t port);
/// On all addresses of IPv4 and, where the machine has it, IPv6.
Socket listen_at(std::uint16_t port);
Socket accept_from(int listener);

}  // namespace infinity::detail
