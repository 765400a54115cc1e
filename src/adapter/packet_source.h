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

/// From sockets to whole packets: their ICRC, their headers, their partition key.
class PacketSource final : public Source {
 public:
  /// Nothing is received until somebody calls `Progress::add`.
  PacketSource(Progress& progress, Delivery& delivery, observe::PortCounters& counters,
               const Port& port, std::uint32_t interface_index)
      : progress_(progress),
        delivery_(delivery),
        counters_(counters),
        port_(port),
        interface_index_(interface_index) {}

  /// Packets come over this socket (borrowed), too.
  Result<void> receive_from(int fd);
  /// Multicast groups: sockets of their own, served like the others, over each RoCE version that
  /// the node has. EPERM for version 1 without CAP_NET_RAW.
  Result<void> join(const Gid& group);
  void leave(const Gid& group);

  std::size_t receive(TimeNs now) override;

 private:
  struct Socket {
    link::UdpSocket socket;
    Gid group;  // Zero: unicast.
  };
  /// A datagram of those that came together, and whose ICRC is right.
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
  const Port& port_;
  const std::uint32_t interface_index_;
  // The turn lock guards what follows.
  link::UdpReceiver receiver_;
  std::optional<port::PacketRoute> route_;  // Of the datagrams that came last.
  std::vector<std::unique_ptr<Socket>> sockets_;
  std::array<wire::Packet, kDatagramsMax> packets_;  // On their way.
};

}  // namespace verbatim::adapter
