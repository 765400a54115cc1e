#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/error.h"
#include "base/net/address.h"
#include "base/net/path.h"
#include "mad/mad.h"
#include "wire/mad/management_packet.h"

namespace verbatim::agent {

using mad::Mad;

/// Queue pair 1 of the node: management datagrams in and out.
class ManagementPort {
 public:
  using OnMad = std::function<void(const Mad&)>;

  ManagementPort() = default;
  ManagementPort(const ManagementPort&) = delete;
  ManagementPort& operator=(const ManagementPort&) = delete;
  virtual ~ManagementPort() = default;

  /// Readable when `receive` has something.
  virtual std::vector<int> fds() const = 0;
  /// Takes what is there: each datagram that is whole and meant for queue pair 1 is handed on.
  virtual void receive() = 0;
  /// One that cannot be sent counts as lost.
  virtual void send(std::uint32_t address, const Path& path, wire::MadSpan mad) = 0;
  /// One address more. EOPNOTSUPP where addresses have no sockets.
  virtual Result<void> add(const SocketAddress& address, int socket) = 0;
};

}  // namespace verbatim::agent
