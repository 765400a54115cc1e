#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>

#include "base/bytes.h"
#include "base/error.h"
#include "base/net/address.h"
#include "link/ethernet/ethernet_segment.h"
#include "link/ethernet/frame_batch.h"
#include "link/ethernet/packet_interface.h"

/// Whole Ethernet frames. On a real interface they go through packet sockets, which need
/// CAP_NET_RAW, and really leave; between nodes on the loopback interface, which has no Ethernet,
/// an emulated segment carries them, for every user.
namespace verbatim::link {

/// Whose frames: the node's place on its interface.
struct EthernetIdentity {
  std::string interface;
  std::uint32_t interface_index = 0;
  SocketAddress address;  // The node's, IPv4 where it has one.
};

/// The Ethernet port of one program. Sending is thread-safe; receiving is for one thread at a time.
class EthernetPort {
 public:
  /// For sending at first. EPERM: a real interface without CAP_NET_RAW. EAFNOSUPPORT: a node of the
  /// loopback interface without an IPv4 address.
  static Result<std::unique_ptr<EthernetPort>> open(const EthernetIdentity& identity);

  /// The largest frame that it carries, header included, with one VLAN tag.
  std::size_t frame_bytes_max() const;
  /// Sends all; 0 or an errno value: EMSGSIZE (a frame is larger than the interface takes),
  /// ENETDOWN...; what there was no room for is lost. Writes into the batch's headers.
  int send(const FrameBatch& batch) const noexcept;

  /// From now on every frame on the segment is received. Returns the descriptor to wait for.
  Result<int> start_receiving();
  void stop_receiving();
  /// Takes what is there, a bounded number, without blocking, and calls
  /// `on_frame(const ReceivedFrame&)` for each. Returns how many system calls brought something.
  template <typename OnFrame>
  std::size_t receive(OnFrame on_frame) {
    return std::visit([&](auto& link) { return link.receive(on_frame); }, link_);
  }

 private:
  using Link = std::variant<EthernetSegment, PacketInterface>;
  explicit EthernetPort(Link link) : link_(std::move(link)) {}
  Link link_;
};

}  // namespace verbatim::link
