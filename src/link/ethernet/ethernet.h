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
#include "link/ethernet/function_frames.h"
#include "link/ethernet/packet_interface.h"

/// Whole Ethernet frames. On a real interface packet sockets carry them, which need CAP_NET_RAW.
/// Between nodes on the loopback interface, which has no Ethernet, an emulated segment carries
/// them, and to and from a card's function its rings do: both for every user.
namespace verbatim::link {

/// The node's identity on its interface.
struct EthernetIdentity {
  std::string interface;
  std::uint32_t interface_index = 0;
  SocketAddress address;  // The node's, IPv4 if it has one.
  std::string function;   // Of a card, instead of the interface: "SOCKET/vf2".
};

/// The Ethernet port of one program. Sending is thread-safe; only one thread at a time receives.
class EthernetPort {
 public:
  /// Opens it for sending. EPERM: a real interface without CAP_NET_RAW. EAFNOSUPPORT: a node of the
  /// loopback interface without an IPv4 address.
  static Result<std::unique_ptr<EthernetPort>> open(const EthernetIdentity& identity);

  /// Returns the size of the largest frame, with its header and one VLAN tag.
  std::size_t frame_bytes_max() const;
  /// Sends all frames; returns 0 or an errno value: EMSGSIZE (a frame is too large for the
  /// interface), ENETDOWN...; frames without room in the buffer are lost. Writes to the batch's
  /// headers.
  int send(const FrameBatch& batch) const noexcept;

  /// Every frame on the segment is received from now on. Returns the descriptor to wait for.
  Result<int> start_receiving();
  void stop_receiving();
  /// Before a thread sleeps on the descriptor. False: something has come already.
  bool begin_sleep();
  /// Reads a bounded number of frames without blocking, and calls `on_frame(const ReceivedFrame&)`
  /// for each. Returns the number of system calls that returned frames.
  template <typename OnFrame>
  std::size_t receive(OnFrame on_frame) {
    return std::visit([&](auto& link) { return link.receive(on_frame); }, link_);
  }

 private:
  using Link = std::variant<EthernetSegment, PacketInterface, FunctionFrames>;
  explicit EthernetPort(Link link) : link_(std::move(link)) {}
  Link link_;
};

}  // namespace verbatim::link
