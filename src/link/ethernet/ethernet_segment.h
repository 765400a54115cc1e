#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/error.h"
#include "base/net/address.h"
#include "link/ethernet/frame_batch.h"
#include "link/ethernet/received_frame.h"
#include "link/udp/udp.h"

namespace verbatim::link {

/// The Ethernet between the nodes of the loopback interface, a hub: each frame is a VXLAN datagram
/// (RFC 7348) to an IP multicast group that every receiving program joins.
///
///     byte   0       1-3      4-6      7
///          +-------+--------+--------+------+-------
///          | flags | rsvd   | VNI    | rsvd | frame
///          +-------+--------+--------+------+-------
class EthernetSegment {
 public:
  static constexpr std::uint16_t kPort = 4792;
  static constexpr std::uint32_t kNetworkIdentifier = 1;
  static SocketAddress group() { return SocketAddress::ipv4({239, 255, 86, 66}, kPort); }

  /// EAFNOSUPPORT unless the address is IPv4.
  static Result<EthernetSegment> open(const SocketAddress& address, std::uint32_t interface_index);

  std::size_t frame_bytes_max() const { return kFrameBytesMax; }
  int send(const FrameBatch& batch) const noexcept;
  Result<int> start_receiving();
  void stop_receiving();
  template <typename OnFrame>
  std::size_t receive(OnFrame& on_frame) {
    if (!socket_) return 0;
    return receiver_->receive(*socket_, [&](const ReceivedDatagrams& datagrams) {
      const bool sent = same_ip(datagrams.source, sender_->local());
      for (std::size_t at = 0; at < datagrams.bytes.size(); at += datagrams.segment_size) {
        const auto rest = datagrams.bytes.subspan(at);
        const auto one = rest.first(std::min(rest.size(), datagrams.segment_size));
        if (is_frame(one)) {
          on_frame(ReceivedFrame{.bytes = one.subspan(FrameBatch::kHeaderBytes), .sent = sent});
        }
      }
    });
  }

 private:
  EthernetSegment() = default;
  static bool is_frame(ByteSpan datagram);

  std::uint32_t interface_index_ = 0;
  std::unique_ptr<UdpSender> sender_;
  const SendSocket* send_socket_ = nullptr;
  std::optional<UdpSocket> socket_;
  std::unique_ptr<UdpReceiver> receiver_;
};

}  // namespace verbatim::link
