#pragma once

#include <cstdint>
#include <expected>
#include <unordered_map>

#include "base/error.h"
#include "base/net/address.h"

namespace verbatim::ulp::rds {

/// Names a program's socket. Zero: none.
enum class SocketId : std::uint32_t {};
inline constexpr SocketId kNoSocket{};

/// Which socket is bound where. Ports are a node's, for each of its addresses.
class Ports {
 public:
  /// `seed`: where free ports are looked for.
  explicit Ports(std::uint16_t seed) : next_(seed) {}
  /// Port 0 takes a free one. EADDRINUSE.
  Result<SocketAddress> bind(SocketId socket, const SocketAddress& address);
  void unbind(const SocketAddress& address) { bound_.erase(address); }
  SocketId find(const SocketAddress& address) const {
    const auto found = bound_.find(address);
    return found == bound_.end() ? kNoSocket : found->second;
  }

 private:
  /// 0 is ping's, 1 that of probes for several paths.
  static constexpr std::uint16_t kFirst = 2;
  std::uint16_t next_;
  std::unordered_map<SocketAddress, SocketId> bound_;
};

}  // namespace verbatim::ulp::rds
