#pragma once

#include <memory>
#include <span>
#include <vector>

#include "agent/protocol/node.h"
#include "base/error.h"
#include "base/os/unique_fd.h"
#include "link/udp/udp.h"
#include "mad/mad.h"
#include "wire/mad/management_packet.h"

namespace verbatim::agent {

using mad::Mad;

/// Queue pair 1 of the node: management datagrams in and out, on the sockets of slot 0.
class ManagementPort {
 public:
  /// The sockets, one for each of the node's addresses, are borrowed.
  static Result<ManagementPort> create(const Node& node, std::span<const UniqueFd> sockets);

  std::vector<int> fds() const;
  /// One address more.
  Result<void> add(const SocketAddress& address, int socket);
  /// Takes what is there: `on_mad(const Mad&)` for each that is whole and meant for queue pair 1.
  template <typename OnMad>
  void receive(OnMad on_mad) {
    for (std::uint32_t address = 0; address < sockets_.size(); ++address) {
      receiver_->receive(sockets_[address], [&](const link::ReceivedDatagrams& datagrams) {
        each_mad(datagrams, [&](const Path& source, const wire::ManagementDatagram& datagram) {
          on_mad(Mad{.peer = source,
                     .own_address = address,
                     .source_qpn = datagram.source_qpn,
                     .bytes = datagram.mad});
        });
      });
    }
  }
  /// One that cannot be sent counts as lost.
  void send(std::uint32_t address, const Path& path, wire::MadSpan mad);

 private:
  ManagementPort() = default;
  /// RoCE v1: the addresses are in the packet itself.
  template <typename OnMad>
  void frame_mad(const link::ReceivedDatagrams& frame, OnMad on_mad) const {
    const auto packet = wire::decode_grh_packet(frame.bytes);
    if (!packet) return;
    const wire::IcrcSeed seed({.source = packet->grh.source,
                               .destination = packet->grh.destination,
                               .source_port = 0,
                               .destination_port = 0});
    const auto source = resolve_gid(packet->grh.source, interface_index_);
    const auto mad = wire::decode_management_packet(seed, packet->packet);
    if (source && mad) on_mad(RoceV1Path{source->with_port(0), {}}, *mad);
  }
  template <typename OnMad>
  void each_mad(const link::ReceivedDatagrams& datagrams, OnMad on_mad) const {
    if (datagrams.source.empty()) return frame_mad(datagrams, on_mad);
    const wire::IcrcSeed seed(wire::flow_of(datagrams.source, datagrams.destination));
    for (std::size_t at = 0; at < datagrams.bytes.size(); at += datagrams.segment_size) {
      const std::size_t length = std::min(datagrams.segment_size, datagrams.bytes.size() - at);
      const auto packet = datagrams.bytes.subspan(at, length);
      if (const auto mad = wire::decode_management_packet(seed, packet)) {
        // Answers go to RoCE's port, whichever one the peer has sent from.
        on_mad(RoceV2Path{datagrams.source.with_port(kRocePort), {}}, *mad);
      }
    }
  }

  std::vector<link::UdpSocket> sockets_;
  std::vector<std::unique_ptr<link::Stack>> links_;  // By address.
  std::shared_ptr<link::UdpReceiver> receiver_;
  std::uint32_t interface_index_ = 0;
  Psn psn_;
};

}  // namespace verbatim::agent
