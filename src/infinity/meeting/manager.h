#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <rdma/rdma_cma.h>
#include <sys/socket.h>

#include "infinity/device.h"

namespace infinity::detail {

/// A connection over iWARP, which rdma_cm alone makes: of a queue pair that exists already.
/// Everything here blocks and throws `Error`.
class Manager {
 public:
  /// Waits for the peer at a port that is free.
  static std::unique_ptr<Manager> listen(sa_family_t family);
  std::uint16_t port() const;
  /// Takes the peer that shows the ticket; ends with an error if the TCP connection to it ends.
  void accept(const Device& device, std::uint32_t queue_pair, std::uint64_t ticket, int socket);

  /// The port is part of the address.
  static std::unique_ptr<Manager> connect(const Device& device, const sockaddr_storage& address,
                                          std::uint32_t queue_pair, std::uint64_t ticket);

  /// An IPv4 address of the device, which over iWARP its GIDs do not tell.
  static std::optional<sockaddr_storage> address_of(const Device& device);

  /// Disconnects, and waits a moment until all that was sent has left.
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
