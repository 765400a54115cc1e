#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>

#include "base/net/address.h"
#include "base/net/path.h"
#include "base/os/unique_fd.h"
#include "base/time.h"
#include "link/ethernet/neighbour.h"
#include "link/link.h"
#include "link/udp/receiving_sockets.h"

namespace verbatim::link {

/// RoCE v1 from one address of the node: each packet is an Ethernet frame (IBA annex A16). Frames
/// are not merged: all hosts share one packet socket, each send passes the Ethernet address, and
/// the kernel writes the header. Frames for this machine use the loopback interface.
class RoceV1Link final : public Link {
 public:
  /// Hosts to which one address of a node can send.
  static constexpr std::size_t kHostsMax = 1 << 10;

  /// `local`: the node's address.
  RoceV1Link(const SocketAddress& local, std::uint32_t interface_index,
             std::shared_ptr<UdpReceiver> buffers);
  ~RoceV1Link() override;
  /// Also receives from this packet socket (`open_frame_socket`, borrowed). No thread may be
  /// receiving meanwhile, as for `join`.
  Result<void> receive_from(int fd);

  Properties properties() const override {
    return {.first_header = FirstHeader::grh, .packet_bytes_max = kMergedBytesMax};
  }
  /// Looks where the neighbour is now, for the others who send to it, too. Waits for an unknown
  /// one's answer for `patience`, and by default for a moment, where the last one answered.
  Result<NextHop*> next_hop(const Path& path, Qpn destination,
                            std::optional<TimeNs> patience) override;
  bool reserve(std::uint8_t, const Reservation&) override { return true; }
  void release(std::uint8_t, const Reservation&) override {}
  int send(const Packets& packets) noexcept override;
  std::size_t receive(Sink& sink, TimeNs now) override;
  Result<void> join(const MulticastGroup& group) override;
  void leave(const MulticastGroup& group) override { sockets_.leave(group.gid); }
  const std::atomic<std::uint32_t>* has_packets() const override { return nullptr; }
  std::span<const int> descriptors() const override { return sockets_.descriptors(); }

 private:
  class Host;
  Result<LinkAddress> find_neighbour(const SocketAddress& destination,
                                     std::optional<TimeNs> patience);
  Result<void> open_sending();

  const SocketAddress local_;
  const std::uint32_t interface_index_;
  // After a failed neighbour discovery, others do not wait for one before this time.
  std::atomic<TimeNs> no_wait_until_{0};
  ReceivingSockets sockets_;
  std::mutex mutex_;  // Protects the members below.
  UniqueFd sending_;  // All frames are sent with it.
  std::unordered_map<SocketAddress, std::unique_ptr<Host>> hosts_;
};

}  // namespace verbatim::link
