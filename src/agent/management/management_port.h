#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "agent/protocol/node.h"
#include "base/error.h"
#include "base/net/address.h"
#include "base/os/unique_fd.h"
#include "link/udp/udp.h"
#include "mad/mad.h"
#include "observe/counters.h"
#include "port/port.h"
#include "port/receiver.h"
#include "wire/mad/management_packet.h"

namespace verbatim::agent {

using mad::Mad;

/// Queue pair 1 of the node: management datagrams in and out, on the sockets of slot 0.
class ManagementPort final : private port::Receiver {
 public:
  using OnMad = std::function<void(const Mad&)>;

  /// The sockets, one for each of the node's addresses, are borrowed.
  static Result<std::unique_ptr<ManagementPort>> create(const NodeDescription& node,
                                                        std::span<const UniqueFd> sockets,
                                                        OnMad on_mad);

  std::vector<int> fds() const { return port_.descriptors(); }
  /// One address more.
  Result<void> add(const SocketAddress& address, int socket);
  /// Takes what is there: `on_mad` gets each that is whole and meant for queue pair 1.
  void receive() { port_.receive(monotonic_now()); }
  /// One that cannot be sent counts as lost.
  void send(std::uint32_t address, const SocketAddress& destination, wire::MadSpan mad);

 private:
  ManagementPort(std::uint32_t interface_index, OnMad on_mad)
      : interface_index_(interface_index),
        on_mad_(std::move(on_mad)),
        port_(*this, counters_, interface_index) {}
  void on_packets(std::span<const wire::Packet> packets, const Path& from, const Path& to,
                  const Gid& group, TimeNs now) override;

  const std::uint32_t interface_index_;
  const OnMad on_mad_;
  const std::shared_ptr<link::UdpReceiver> buffers_ = std::make_shared<link::UdpReceiver>();
  observe::PortCounters counters_;  // Nobody reads them: programs have their own.
  port::Port port_;                 // Its GIDs are the node's addresses, in their order.
  Psn psn_;
};

}  // namespace verbatim::agent
