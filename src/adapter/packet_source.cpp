#include "adapter/packet_source.h"

#include <algorithm>

#include "link/ethernet/roce_v1_socket.h"
#include "wire/net/grh.h"
#include "wire/net/icrc.h"
#include "wire/net/ip.h"

namespace verbatim::adapter {
namespace {

/// By the opcode, before anything is checked: it only decides which packets of a merged datagram
/// come first.
bool is_response(ByteSpan bytes) {
  const auto& info = wire::info(static_cast<wire::Opcode>(bytes.front()));
  return info.known && !info.is_request;
}

}  // namespace

Result<void> PacketSource::receive_from(int fd) {
  auto socket = link::UdpSocket::adopt(fd);
  if (!socket) return std::unexpected(socket.error());
  return add(std::move(*socket), Gid{});
}

Result<void> PacketSource::join(const Gid& group) {
  auto address = resolve_gid(group, interface_index_);
  if (!address) return std::unexpected(address.error());
  for (const RoceVersion version : {RoceVersion::v1, RoceVersion::v2}) {
    auto joined = join_over(version, group, *address);
    if (!joined) {
      leave(group);  // Over the version that did.
      return joined;
    }
  }
  return {};
}

Result<void> PacketSource::join_over(RoceVersion version, const Gid& group,
                                     const SocketAddress& address) {
  const auto gids = port_.gids();
  const auto is_of_version = [version](const GidEntry& entry) {
    return roce_version(entry.address) == version;
  };
  const auto any = std::ranges::find_if(gids, is_of_version);
  if (any == gids.end()) return {};
  if (version == RoceVersion::v1) {
    auto fd = link::open_group_frame_socket(group, interface_index_);
    if (!fd) return std::unexpected(fd.error());
    auto socket = link::UdpSocket::adopt(std::move(*fd));
    if (!socket) return std::unexpected(socket.error());
    return add(std::move(*socket), group);
  }
  const auto own = std::ranges::find_if(gids, [&](const GidEntry& entry) {
    return is_of_version(entry) && entry.address.family() == address.family();
  });
  const SocketAddress local = own != gids.end() ? own->address : any->address;
  auto socket = link::UdpSocket::join_multicast(address, local, interface_index_);
  if (!socket) return std::unexpected(socket.error());
  return add(std::move(*socket), group);
}

Result<void> PacketSource::add(link::UdpSocket socket, const Gid& group) {
  Result<void> heard;
  progress_.between_passes([&] {
    heard = progress_.listen(socket.fd());
    if (heard) sockets_.push_back(std::make_unique<Socket>(std::move(socket), group));
  });
  return heard;
}

void PacketSource::leave(const Gid& group) {
  // Closing the socket takes it out of the epoll set.
  progress_.between_passes([&] {
    std::erase_if(sockets_, [&group](const auto& socket) { return socket->group == group; });
  });
}

std::size_t PacketSource::receive(TimeNs now) {
  std::size_t received = 0;
  for (const auto& socket : sockets_) {
    received += receiver_.receive(socket->socket, [&](const link::ReceivedDatagrams& datagrams) {
      on_datagrams(datagrams, socket->group, now);
    });
  }
  return received;
}

/// RoCE v1: the addresses are in the packet itself.
void PacketSource::on_frame(const link::ReceivedDatagrams& frame, const Gid& group, TimeNs now) {
  const auto packet = wire::decode_grh_packet(frame.bytes);
  const auto from =
      packet ? resolve_gid(packet->grh.source, interface_index_) : refuse(EPROTO, "no GRH");
  const auto to =
      packet ? resolve_gid(packet->grh.destination, interface_index_) : refuse(EPROTO, "no GRH");
  if (!from || !to) return counters_.malformed.add();
  on_datagrams({.source = from->with_port(0),
                .destination = to->with_port(0),
                .segment_size = packet->packet.size(),
                .bytes = packet->packet},
               group, now);
}

void PacketSource::on_datagrams(const link::ReceivedDatagrams& datagrams, const Gid& group,
                                TimeNs now) {
  if (datagrams.source.empty()) return on_frame(datagrams, group, now);
  if (!route_ || !route_->is_of(datagrams.source, datagrams.destination)) {
    route_.emplace(datagrams.source, datagrams.destination);
  }
  // All are checked before any is placed: placing is stores, which a checksum would wait for.
  std::array<Arrival, kDatagramsMax> arrivals;
  std::size_t count = 0;
  std::uint16_t first_identification = 0;
  std::uint16_t index = 0;
  const auto& all = datagrams.bytes;
  for (std::size_t at = 0; at < all.size(); at += datagrams.segment_size, ++index) {
    const ByteSpan bytes = all.subspan(at, std::min(datagrams.segment_size, all.size() - at));
    auto identification = static_cast<std::uint16_t>(first_identification + index);
    if (!is_good(bytes, route_->seed, identification)) continue;
    first_identification = static_cast<std::uint16_t>(identification - index);
    arrivals[count++] = {bytes, is_response(bytes)};
    if (count < arrivals.size()) continue;
    deliver(std::span(arrivals).first(count), datagrams, group, now);
    count = 0;
  }
  deliver(std::span(arrivals).first(count), datagrams, group, now);
}

/// `identification` is what this datagram's IP header probably says; it becomes what it does say.
bool PacketSource::is_good(ByteSpan bytes, const wire::IcrcSeed& seed,
                           std::uint16_t& identification) {
  counters_.packets_received.add_exclusive();
  counters_.bytes_received.add_exclusive(bytes.size());
  if (bytes.size() < wire::Bth::kSize + wire::kIcrcBytes) {
    counters_.malformed.add();
    return false;
  }
  const auto found = wire::verify_icrc(seed, bytes, identification);
  if (!found) {
    counters_.icrc_errors.add();
    return false;
  }
  identification = *found;
  return true;
}

/// Our own sender puts an acknowledgement behind the request that rides in the same datagram; the
/// program's request completes before its peer's answer is seen, as with a card.
void PacketSource::deliver(std::span<const Arrival> arrivals, const link::ReceivedDatagrams& origin,
                           const Gid& group, TimeNs now) {
  std::size_t count = 0;
  for (const bool responses : {true, false}) {
    for (const Arrival& one : arrivals) {
      if (one.is_response == responses && decode(one.bytes, packets_[count])) ++count;
    }
  }
  delivery_.on_packets(std::span(packets_).first(count), origin.source, origin.destination, group,
                       now);
}

/// False: it counts as malformed, or is of another partition.
bool PacketSource::decode(ByteSpan bytes, wire::Packet& packet) {
  const auto decoded = wire::decode_packet(bytes.first(bytes.size() - wire::kIcrcBytes));
  if (!decoded) {
    counters_.malformed.add();
    return false;
  }
  // IBA 10.9.3: the lower 15 bits match, and one of the two is a full member.
  if ((raw(decoded->headers.bth.pkey) & 0x7fff) != (raw(kDefaultPKey) & 0x7fff)) {
    counters_.pkey_violations.add();
    return false;
  }
  packet = *decoded;
  return true;
}

}  // namespace verbatim::adapter
