#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <rdma/rdma_cma.h>
#include <sys/socket.h>

#include "infinity/device.h"

namespace infinity::detail {

/// An iWARP connection, made by rdma_cm, for an existing queue pair. All functions block and throw
/// `Error`.
class Manager {
 public:
  /// Listens at a free port.
  static std::unique_ptr<Manager> listen(sa_family_t family);
  std::uint16_t port() const;
  /// Accepts the peer that presents the ticket. Fails if the TCP connection to it ends.
  void accept(const Device& device, std::uint32_t queue_pair, std::uint64_t ticket, int socket);

  /// `address` includes the port.
  static std::unique_ptr<Manager> connect(const Device& device, const sockaddr_storage& address,
                                          std::uint32_t queue_pair, std::uint64_t ticket);

  /// Returns an IPv4 address of the device, which the GIDs of iWARP do not contain.
  static std::optional<sockaddr_storage> address_of(const Device& device);

  /// Disconnects, and waits a moment until all data is sent.
  ~Manager();
  Manager(const Manager&) = delete;
  Manager& operator=(const Manager&) = delete;

 private:
  Manager();
  void resolve(const Device& device, sockaddr_storage address);

  Owned<rdma_event_channel, rdma_destroy_event_channel> channel_;
  Owned<rdma_cm_id, rdma_destroy_id> listener_;
  Owned<rdma_cm_id, rdma_destroy_id> id_;
  bool is_connected_ = false;
};

}  // namespace infinity::detail
