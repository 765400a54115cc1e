#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "agent/protocol/node.h"
#include "base/error.h"
#include "base/os/unique_fd.h"
#include "config/node_config.h"
#include "fabric/protocol/channel.h"
#include "fabric/protocol/fabric_folder.h"

/// The node of a host of an InfiniBand fabric: what its daemon tells of it.
namespace verbatim::agent {

class FabricHost {
 public:
  /// `host`: a name, or a GUID as "0x...". ENOENT: no such fabric runs; ENODEV: it has no such
  /// host.
  static Result<std::unique_ptr<FabricHost>> open(const std::string& fabric,
                                                  const std::string& host);

  /// The node as it is now. `wanted` says what the fabric does not. EADDRNOTAVAIL: the fabric has
  /// no address left for it; ENODEV: the host has no port.
  Result<Node> node(const std::string& name, const config::NodeConfig& wanted) const;
  NetworkState network() const;
  std::uint64_t fabric_id() const { return facts_.fabric_id; }
  /// The folder with the host's view of /sys.
  std::string view() const { return folder_.view(facts_.guid); }

  /// A file with the locks of the host's programs. It goes with the fabric's daemon.
  std::string programs() const { return folder_.programs(facts_.guid); }

  /// Readable when `follow` has something.
  int fd() const { return connection_.get(); }
  /// Takes the changes that are there. An error means that the fabric has ended.
  Result<void> follow();

  /// A connection to one of its ports, by which rdma_cm connects: see fabric/protocol.
  Result<UniqueFd> open_port(std::uint8_t port) const;

 private:
  FabricHost(std::string fabric, fabric::protocol::FabricFolder folder)
      : fabric_(std::move(fabric)), folder_(std::move(folder)) {}

  const std::string fabric_;
  const fabric::protocol::FabricFolder folder_;
  UniqueFd connection_;
  fabric::protocol::Receiver receiver_;
  fabric::protocol::HostDescription facts_;
};

}  // namespace verbatim::agent
