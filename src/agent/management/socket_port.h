#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "agent/management/management_port.h"
#include "agent/protocol/node.h"
#include "base/error.h"
#include "base/net/address.h"
#include "base/os/unique_fd.h"
#include "link/udp/udp.h"
#include "observe/counters.h"
#include "port/port.h"
#include "port/receiver.h"
#include "port/roce_link.h"
#include "wire/mad/management_packet.h"

namespace verbatim::agent {

/// Over RoCE: on the sockets of slot 0, or on a card's function.
class SocketPort final : public ManagementPort, private port::Receiver {
 public:
  /// The sockets, one for each of the node's addresses, are borrowed.
  static Result<std::unique_ptr<SocketPort>> create(const Node& node,
                                                    std::span<const UniqueFd> sockets,
                                                    OnMad on_mad);

  std::vector<int> fds() const override { return port_.descriptors(); }
  Result<void> add(const SocketAddress& address, int socket) override;
  void receive() override;
  void send(std::uint32_t address, const Path& path, wire::MadSpan mad) override;

 private:
  SocketPort(std::uint32_t interface_index, OnMad on_mad)
      : interface_index_(interface_index),
        on_mad_(std::move(on_mad)),
        port_(1, *this, counters_, interface_index) {}
  void on_packets(std::span<const wire::Packet> packets, const Path& from, const Path& to,
                  const Gid& group, TimeNs now) override;

  const std::uint32_t interface_index_;
  const OnMad on_mad_;
  std::shared_ptr<port::NodeFunction> function_;  // Null: the kernel's sockets.
  const std::shared_ptr<link::UdpReceiver> buffers_ = std::make_shared<link::UdpReceiver>();
  observe::PortCounters counters_;  // Nobody reads them: programs have their own.
  port::Port port_;                 // Its GIDs are the node's addresses, in their order.
  Psn psn_;
};

}  // namespace verbatim::agent
