#pragma once

#include <memory>
#include <vector>

#include "agent/fabric/fabric_host.h"
#include "agent/management/management_port.h"

namespace verbatim::agent {

/// Queue pair 1 of each port of a host of a fabric, through the fabric's daemon: its requests of
/// the communication manager's class come here, all others are for programs of libibumad.
class FabricPort final : public ManagementPort {
 public:
  /// `host` outlives it. EINVAL: another process has the class on this host.
  static Result<std::unique_ptr<FabricPort>> create(const FabricHost& host, OnMad on_mad);

  std::vector<int> fds() const override;
  void receive() override;
  void send(std::uint32_t address, const Path& path, wire::MadSpan mad) override;
  Result<void> add(const SocketAddress& address, int socket) override;

 private:
  struct Port {
    UniqueFd connection;
    std::uint32_t agent = 0;  // Its number in the connection.
  };
  FabricPort(const FabricHost& host, OnMad on_mad) : host_(host), on_mad_(std::move(on_mad)) {}
  Result<void> open(std::uint8_t port);
  void receive(std::uint8_t port);
  InfinibandPath path_to(const fabric::protocol::MadAddress& from, std::uint8_t own_port) const;

  const FabricHost& host_;
  const OnMad on_mad_;
  std::vector<Port> ports_;  // From port 1 on.
  fabric::protocol::Receiver receiver_;
};

}  // namespace verbatim::agent
