#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/net/address.h"
#include "base/net/path.h"
#include "link/link.h"
#include "link/udp/receiving_sockets.h"
#include "link/udp/udp.h"

namespace verbatim::link {

/// RoCE v2 from one address of the node: packets are UDP datagrams (IBA annex A17).
class UdpLink final : public Link {
 public:
  /// `local`: the node's address; its port is ignored. `sockets_max`: as `UdpSender` has it.
  UdpLink(const SocketAddress& local, std::uint32_t interface_index,
          std::shared_ptr<UdpReceiver> buffers, std::size_t sockets_max = 64);
  /// Also receives from this bound socket (borrowed). No thread may be receiving meanwhile, as for
  /// `join`.
  Result<void> receive_from(int fd);

  Properties properties() const override { return {.packet_bytes_max = kSendBytesMax}; }
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
  const std::uint32_t interface_index_;
  UdpSender sender_;
  ReceivingSockets sockets_;
  Path from_ = RoceV2Path{}, to_ = RoceV2Path{};  // Of the last datagrams received.
};

}  // namespace verbatim::link
