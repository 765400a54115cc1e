#pragma once

#include <memory>

#include "agent/fabric/fabric_host.h"
#include "agent/management/management_port.h"

namespace verbatim::agent {

/// Queue pair 1 of a host of a fabric, through the fabric's daemon: its requests of the
/// communication manager's class come here, all others are for programs of libibumad.
class FabricPort final : public ManagementPort {
 public:
  /// `host` outlives it. EINVAL: another process has the class on this host.
  static Result<std::unique_ptr<FabricPort>> create(const FabricHost& host, OnMad on_mad);

  std::vector<int> fds() const override { return {connection_.get()}; }
  void receive() override;
  void send(std::uint32_t address, const Path& path, wire::MadSpan mad) override;
  Result<void> add(const SocketAddress& address, int socket) override;

 private:
  FabricPort(const FabricHost& host, UniqueFd connection, std::uint32_t agent, OnMad on_mad)
      : host_(host),
        connection_(std::move(connection)),
        agent_(agent),
        on_mad_(std::move(on_mad)) {}
  InfinibandPath path_to(const fabric::protocol::MadAddress& from) const;

  const FabricHost& host_;
  const UniqueFd connection_;
  const std::uint32_t agent_;  // Its number in the connection.
  const OnMad on_mad_;
  fabric::protocol::Receiver receiver_;
};

}  // namespace verbatim::agent
