#include "link/ethernet/function_link.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "link/ethernet/neighbour.h"
#include "link/pieces.h"
#include "wire/net/ethernet/neighbour_message.h"
#include "wire/net/ethernet/roce_frame.h"
#include "wire/net/frame.h"
#include "wire/net/grh.h"

namespace verbatim::link {
namespace {

/// Of the dynamic ports, as mlx5 has it; the queue pair chooses which.
constexpr std::uint16_t kFirstSourcePort = 0xc000;
constexpr std::uint32_t kSourcePorts = 64;

SocketAddress address_of(const Gid& gid, std::uint16_t port) {
  if (!gid.is_ipv4_mapped()) return SocketAddress::ipv6(gid.bytes, port);
  return SocketAddress::ipv4({gid.bytes[12], gid.bytes[13], gid.bytes[14], gid.bytes[15]}, port);
}

}  // namespace

/// A neighbour, and how frames to it begin.
class FunctionLink::Hop final : public NextHop {
 public:
  Hop(const SocketAddress& local, const MacAddress& own_mac, const wire::IpFlow& flow)
      : own_mac_(own_mac),
        flow_(flow),
        header_bytes_(flow.has_grh() ? wire::kEthernetHeaderBytes
                                     : wire::roce_v2_header_bytes(flow)) {
    local_ = local.with_port(flow.has_grh() ? 0 : flow.source_port);
  }
  void move_to(const MacAddress& mac) { place_.set({.mac = mac}); }
  std::size_t header_bytes() const { return header_bytes_; }

  /// Writes the frame of the call's packet `i`, which are the cursor's next bytes.
  std::size_t write(std::size_t i, PieceCursor& cursor, std::size_t packet_bytes,
                    MutableByteSpan room) const {
    const std::size_t bytes =
        header_bytes_ + cursor.copy(room.subspan(header_bytes_, packet_bytes));
    const MacAddress to = place_.get().mac;
    if (flow_.has_grh()) {
      wire::encode_ethernet(to, own_mac_, wire::kTypeRoceV1, room.data());
    } else {
      // Numbered as the kernel numbers the segments of a call: the ICRC counts on it.
      wire::encode_roce_v2_headers(to, own_mac_, flow_, static_cast<std::uint16_t>(i),
                                   room.first(bytes));
    }
    return bytes;
  }

 private:
  const MacAddress own_mac_;
  const wire::IpFlow flow_;
  const std::size_t header_bytes_;
  AtomicLinkAddress place_;
};

Result<std::unique_ptr<FunctionLink>> FunctionLink::open(const SocketAddress& local,
                                                         std::shared_ptr<NodeFunction> function) {
  auto share = function->share(local);
  if (!share) return std::unexpected(share.error());
  return std::unique_ptr<FunctionLink>(new FunctionLink(local, std::move(function), **share));
}

FunctionLink::FunctionLink(const SocketAddress& local, std::shared_ptr<NodeFunction> function,
                           NodeFunction::Share& share)
    : local_(local),
      function_(std::move(function)),
      share_(share),
      receives_(share.addresses.size() == 1),
      descriptor_(share.port->descriptor()) {}

FunctionLink::~FunctionLink() = default;

Properties FunctionLink::properties() const {
  const bool is_v1 = roce_version(local_) == RoceVersion::v1;
  return {.first_header = is_v1 ? FirstHeader::grh : FirstHeader::bth,
          .packet_bytes_max = VNIC_FUNCTION_MTU,
          .asks_kernel = false};
}

Result<MacAddress> FunctionLink::mac_of(const SocketAddress& destination,
                                        std::optional<TimeNs> patience) {
  const bool is_v1 = roce_version(local_) == RoceVersion::v1;
  if (destination.is_multicast()) {
    return is_v1 ? multicast_mac(destination) : wire::ethernet_group(destination);
  }
  const bool is_own =
      std::ranges::any_of(share_.addresses.elements(),
                          [&](const SocketAddress& own) { return same_ip(own, destination); });
  if (is_own) return share_.port->mac();
  return function_->find(local_, destination, patience);
}

Result<NextHop*> FunctionLink::next_hop(const Path& path, Qpn destination,
                                        std::optional<TimeNs> patience) {
  const SocketAddress to = verbatim::address_of(path);
  const bool is_ours = !to.empty() && !std::holds_alternative<StreamPath>(path) &&
                       roce_version(to) == roce_version(local_);
  if (!is_ours) {
    return refuse(EINVAL, fmt::format("RoCE on a function does not lead to {}", path_text(path)));
  }
  wire::IpFlow flow = wire::flow_of(local_, to);
  if (const auto* const roce = std::get_if<RoceV2Path>(&path)) {
    flow.source_port =
        static_cast<std::uint16_t>(kFirstSourcePort + destination.value() % kSourcePorts);
    flow.traffic_class = roce->grh.traffic_class;
    flow.hop_limit = roce->grh.hop_limit;
    flow.flow_label = local_.is_ipv6() ? roce->grh.flow_label : 0;
  }
  const HopKey key{to.ipv6_bytes(), flow.source_port, flow.traffic_class, flow.hop_limit,
                   flow.flow_label};
  const auto mac = mac_of(to, patience);
  const std::scoped_lock lock(mutex_);
  if (const auto known = hops_.find(key); known != hops_.end()) {
    if (mac) known->second->move_to(*mac);
    return known->second.get();
  }
  if (!mac) return std::unexpected(mac.error());
  if (hops_.size() == kHopsMax) {
    return refuse(ENOBUFS, fmt::format("more than {} flows from one address", kHopsMax));
  }
  auto hop = std::make_unique<Hop>(local_, share_.port->mac(), flow);
  hop->move_to(*mac);
  return hops_.emplace(key, std::move(hop)).first->second.get();
}

int FunctionLink::send(const Packets& packets) noexcept {
  const auto& hop = static_cast<const Hop&>(packets.to);
  if (packets.packet_bytes > VNIC_FUNCTION_FRAME_MAX - hop.header_bytes()) return EMSGSIZE;
  PieceCursor cursor(packets.pieces);
  return share_.port->send(packets.count, [&](std::size_t i, MutableByteSpan room) {
    return hop.write(i, cursor, packets.packet_bytes, room);
  });
}

std::size_t FunctionLink::receive(Sink& sink, TimeNs now) {
  if (!receives_) return 0;
  return share_.port->receive([&](MutableByteSpan frame) { on_frame(frame, sink, now); });
}

void FunctionLink::on_frame(MutableByteSpan frame, Sink& sink, TimeNs now) {
  switch (wire::owner_of(frame).use) {
    case wire::FrameUse::roce_v1:
      return on_v1(frame.subspan(wire::kEthernetHeaderBytes), sink, now);
    case wire::FrameUse::roce_v2:
      return on_v2(frame, sink, now);
    case wire::FrameUse::neighbours:
      return answer(frame);
    case wire::FrameUse::other:
      return;
  }
}

/// The addresses are in the packet itself.
void FunctionLink::on_v1(MutableByteSpan packet, Sink& sink, TimeNs now) {
  const auto header = wire::decode_grh(packet);
  Gid group{};
  if (!header || own_of(header->destination, group) == nullptr) return;
  sink.on_packets({nullptr, nullptr, group, packet.size(), packet}, now);
}

void FunctionLink::on_v2(MutableByteSpan frame, Sink& sink, TimeNs now) {
  const auto found = wire::decode_roce_v2_frame(frame);
  if (!found) return;
  const wire::IpFlow& flow = found->headers.flow;
  Gid group{};
  const SocketAddress* const own = own_of(flow.destination, group);
  if (own == nullptr) return;
  std::get_if<RoceV2Path>(&from_)->destination = address_of(flow.source, flow.source_port);
  std::get_if<RoceV2Path>(&to_)->destination =
      group.is_zero() ? *own : address_of(flow.destination, kRocePort);
  sink.on_packets({.from = &from_,
                   .to = &to_,
                   .group = group,
                   .packet_bytes = found->packet.size(),
                   .bytes = found->packet,
                   .identification = found->headers.identification},
                  now);
}

void FunctionLink::answer(ByteSpan frame) {
  if (!share_.answers) return;
  const auto question = wire::decode_neighbour_message(frame);
  if (!question || question->kind != wire::NeighbourMessage::Kind::question) return;
  const bool is_own =
      std::ranges::any_of(share_.addresses.elements(),
                          [&](const SocketAddress& own) { return same_ip(own, question->target); });
  if (!is_own || question->sender_mac == share_.port->mac()) return;
  share_.port->send(1, [&](std::size_t, MutableByteSpan room) {
    return encode(wire::answer_to(*question, share_.port->mac()),
                  room.first<wire::NeighbourMessage::kSizeMax>());
  });
}

const SocketAddress* FunctionLink::own_of(const Gid& destination, Gid& group) const {
  const SocketAddress to = address_of(destination, 0);
  for (const SocketAddress& own : share_.addresses.elements()) {
    if (same_ip(own, to)) return &own;
  }
  const auto joined = std::ranges::find_if(share_.groups, [&](const Gid& each) {
    const auto address = resolve_gid(each, 0);
    return address && same_ip(*address, to);
  });
  if (joined == share_.groups.end()) return nullptr;
  group = *joined;
  return &local_;
}

Result<void> FunctionLink::join(const MulticastGroup& group) {
  const auto address = resolve_gid(group.gid, 0);
  if (!address) return std::unexpected(address.error());
  if (std::ranges::find(share_.groups, group.gid) == share_.groups.end()) {
    share_.groups.push_back(group.gid);
  }
  return {};
}

void FunctionLink::leave(const MulticastGroup& group) { std::erase(share_.groups, group.gid); }

}  // namespace verbatim::link
