#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <sys/socket.h>

#include "fabric/data/fabric_for_test.h"
#include "fabric/protocol/channel.h"
#include "link/fabric/fabric_link.h"

namespace verbatim::link {

/// A fabric whose routes are set, and the part of its daemon that gives programs their ends: a
/// thread for each connection. Hosts are named by their place.
class DaemonForTest {
 public:
  explicit DaemonForTest(const fabric::Topology& topology, fabric::ImageOptions options = {}) {
    options.is_active = true;
    fabric = std::move(fabric::SharedFabric::create(topology, options).value());
    fabric::set_routes(fabric->image());
    for (const fabric::NodeIndex host : fabric::hosts_of(fabric->image())) hosts.push_back(host);
    folder = mkdtemp(name_.data());
  }
  ~DaemonForTest() {
    threads_.clear();
    std::filesystem::remove_all(folder);
  }

  UniqueFd connect() {
    std::array<int, 2> ends{};
    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data());
    threads_.emplace_back([this, fd = ends[1]] { serve(UniqueFd(fd)); });
    return UniqueFd(ends[0]);
  }
  Result<std::unique_ptr<FabricLink>> attach(UniqueFd connection, unsigned host,
                                             std::uint32_t qpn_range) const {
    return FabricLink::attach(std::move(connection), folder,
                              {.host = std::to_string(host), .qpn_range = qpn_range});
  }
  std::unique_ptr<FabricLink> link(unsigned host, std::uint32_t qpn_range) {
    return std::move(attach(connect(), host, qpn_range).value());
  }
  Lid lid(unsigned host) const { return fabric::lid_of(hosts[host]); }

  std::unique_ptr<fabric::SharedFabric> fabric;
  std::vector<fabric::NodeIndex> hosts;
  std::string folder;

 private:
  void serve(UniqueFd connection) {
    const auto mover = std::move(fabric->join().value());
    std::uint32_t end = 0;
    fabric::protocol::Receiver receiver;
    for (;;) {
      const auto incoming = receiver.receive(connection.get());
      if (!incoming) break;
      namespace protocol = fabric::protocol;
      const fabric::Ends ends = fabric->ends();
      const std::lock_guard guard(ends_lock_);
      if (const auto attach = protocol::decode<protocol::AttachData>(incoming->bytes)) {
        const fabric::NodeRecord& host =
            fabric->image().node(hosts[std::stoul(std::string(protocol::text_of(attach->host)))]);
        const auto taken = ends.take({host.topology_node, host.topology_port});
        if (!taken) {
          (void)protocol::send(connection.get(), protocol::Refusal{.code = taken.error().code});
          continue;
        }
        end = *taken;
        ends.steer(end, attach->qpn_range);
        (void)protocol::send(connection.get(), protocol::DataAttached{.end = end}, fabric->fd());
      } else if (const auto join = protocol::decode<protocol::JoinGroup>(incoming->bytes)) {
        ends.set_member(end, Lid{join->lid}, join->is_member != 0);
        (void)protocol::send(connection.get(), protocol::Done{});
      }
    }
    const std::lock_guard guard(ends_lock_);
    fabric->repair(*mover);
    fabric->bury_end(*mover, end);
  }

  std::array<char, 32> name_{"/tmp/verbatim-link.XXXXXX"};
  std::mutex ends_lock_;  // The daemon has one thread.
  std::vector<std::jthread> threads_;
};

}  // namespace verbatim::link
