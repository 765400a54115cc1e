#include "ulp/target/srp_fabric.h"

#include <sys/epoll.h>

namespace verbatim::ulp::target {

Result<std::unique_ptr<SrpFabric>> SrpFabric::open(const srp::Ports& ports,
                                                   const rdma::Device& device,
                                                   service::Loop& loop) {
  std::unique_ptr<SrpFabric> made(new SrpFabric(ports, device, loop));
  auto management = rdma::Management::open(device.name(), 1);
  if (!management) return std::unexpected(management.error());
  rdma::Management& datagrams = **management;
  const auto answer = [agent = &made->agent_](auto request, auto response) {
    return agent->answer(request, response);
  };
  if (auto served = datagrams.serve(srp::kDeviceManagement, answer); !served)
    return std::unexpected(served.error());
  const auto receive = [&datagrams](std::uint32_t, TimeNs now) { datagrams.receive(now); };
  if (auto watched = loop.watch(datagrams.descriptor(), EPOLLIN, receive); !watched)
    return std::unexpected(watched.error());
  loop.add(datagrams);
  made->management_ = std::move(*management);
  return made;
}

SrpFabric::~SrpFabric() {
  if (management_ == nullptr) return;
  loop_.remove(*management_);
  loop_.unwatch(management_->descriptor());
}

}  // namespace verbatim::ulp::target
