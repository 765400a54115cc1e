#pragma once

#include <memory>

#include "base/error.h"
#include "service/loop.h"
#include "ulp/rdma/device.h"
#include "ulp/rdma/infiniband/management.h"
#include "ulp/srp/device_management.h"

namespace verbatim::ulp::target {

/// Shows SRP ports to those who look for them on an InfiniBand fabric (`ibsrpdm`, `srp_daemon`):
/// the agent of device management on the host's port, whose PortInfo says that there is one.
class SrpFabric {
 public:
  /// Logins are taken at the device's GUID. All three outlive it.
  static Result<std::unique_ptr<SrpFabric>> open(const srp::Ports& ports,
                                                 const rdma::Device& device, service::Loop& loop);
  ~SrpFabric();
  SrpFabric(const SrpFabric&) = delete;
  SrpFabric& operator=(const SrpFabric&) = delete;

 private:
  SrpFabric(const srp::Ports& ports, const rdma::Device& device, service::Loop& loop)
      : agent_(ports, device.guid()), loop_(loop) {}

  srp::DeviceManagement agent_;
  service::Loop& loop_;
  std::unique_ptr<rdma::Management> management_;
};

}  // namespace verbatim::ulp::target
