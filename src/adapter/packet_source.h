#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "adapter/delivery.h"
#include "adapter/membership.h"
#include "adapter/progress/progress.h"
#include "adapter/progress/task.h"
#include "base/error.h"
#include "base/net/address.h"
#include "base/time.h"
#include "base/types.h"
#include "link/udp/udp.h"
#include "observe/counters.h"
#include "port/route.h"
#include "wire/ib/packet.h"

namespace verbatim::adapter {

/// Reads sockets and checks packets: ICRC, headers, partition key.
class PacketSource final : public Source {
 public:
  /// Nothing is received before `Progress::add`.
  PacketSource(Progress& progress, Delivery& delivery, observe::PortCounters& counters,
               const NodeDescription& node)
      : progress_(progress), delivery_(delivery), counters_(counters), node_(node) {}

  /// Also receives from this socket (borrowed).
  Result<void> receive_from(int fd);
  /// Multicast groups have separate sockets, read like the others, over each RoCE version that the
  /// node has. EPERM for version 1 without CAP_NET_RAW.
  Result<void> join(const Gid& group);
  void leave(const Gid& group);

  std::size_t receive(TimeNs now) override;

 private:
  struct Socket {
    link::UdpSocket socket;
    Gid group;  // Zero: unicast.
  };
  /// A datagram, of those that arrived together, with a right ICRC.
  struct Arrival {
    ByteSpan bytes;
    bool is_response = false;
  };
  static constexpr std::size_t kDatagramsMax = link::kSegmentsMax;

  Result<void> join_over(RoceVersion version, const Gid& group, const SocketAddress& address);
  Result<void> add(link::UdpSocket socket, const Gid& group);
  void on_frame(const link::ReceivedDatagrams& frame, const Gid& group, TimeNs now);
  void on_datagrams(const link::ReceivedDatagrams& datagrams, const Gid& group, TimeNs now);
  bool is_good(ByteSpan bytes, const wire::IcrcSeed& seed, std::uint16_t& identification);
  void deliver(std::span<const Arrival> arrivals, const link::ReceivedDatagrams& origin,
               const Gid& group, TimeNs now);
  bool decode(ByteSpan bytes, wire::Packet& packet);

  Progress& progress_;
  Delivery& delivery_;
  observe::PortCounters& counters_;
  const NodeDescription& node_;
  // The pass lock protects the members below.
  link::UdpReceiver receiver_;
  std::optional<port::PacketRoute> route_;  // Of the last datagrams.
  std::vector<std::unique_ptr<Socket>> sockets_;
  std::array<wire::Packet, kDatagramsMax> packets_;  // Being delivered.
};

}  // namespace verbatim::adapter
