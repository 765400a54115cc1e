#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ulp/iscsi/tcp_connection.h"
#include "ulp/iser/connection.h"
#include "ulp/rdma/driver.h"
#include "ulp/target/runner.h"
#include "ulp/tcp/driver.h"

namespace verbatim::ulp::target {

/// "10.0.0.1:3260" or "[fd00::1]:3260". EINVAL.
Result<SocketAddress> portal_address(const std::string& name);

/// Where iSCSI's portals listen: by TCP, and by RDMA if they are told to. Portals of several
/// targets with the same address share what listens.
class IscsiPortals {
 public:
  IscsiPortals(Runner& runner, rdma::Driver& driver, tcp::Driver& tcp, storage::Service& iser,
               storage::Service& stream)
      : runner_(runner), driver_(driver), tcp_(tcp), iser_(iser), stream_(stream) {}

  /// "10.0.0.1:3260" or "[fd00::1]:3260". An address that this host doesn't have is taken: nothing
  /// listens there. EINVAL: the address is in use, as Linux says it.
  int open(const std::string& portal);
  void close(const std::string& portal);
  /// RDMA, too, or no longer. EADDRNOTAVAIL: the device doesn't have the address.
  int set_iser(const std::string& portal, bool is_on);
  /// "TCP 10.0.0.1:3260" and "iSER 10.0.0.1:3260".
  void add_places(std::vector<std::string>& places) const;

 private:
  struct Portal {
    std::uint32_t uses = 0, iser_uses = 0;
    std::vector<rdma::ListenerId> streams;
    std::optional<rdma::ListenerId> rdma;
  };
  std::vector<SocketAddress> addresses_of(const SocketAddress& portal) const;
  int listen_by_tcp(Portal& portal, const SocketAddress& address);
  void close_streams(Portal& portal);

  Runner& runner_;
  rdma::Driver& driver_;
  tcp::Driver& tcp_;
  storage::Service& iser_;
  storage::Service& stream_;
  std::map<std::string, Portal> portals_;
};

}  // namespace verbatim::ulp::target
