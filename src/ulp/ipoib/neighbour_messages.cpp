// What neighbours say to each other: ARP for IPv4, neighbour discovery for IPv6.
#include <algorithm>

#include "base/net/group_gid.h"
#include "ulp/ipoib/neighbours.h"

namespace verbatim::ulp::ipoib {
namespace {

constexpr unsigned kAnnouncements = 2;  // The first may be lost.
constexpr TimeNs kAnnounceAgain = kSecond;

}  // namespace

ByteSpan Neighbours::keep(ByteSpan packet) { return released_.emplace_back(copy_of(packet)); }

bool Neighbours::is_own(const SocketAddress& address) const {
  return std::ranges::find(own_, address, &Own::ip) != own_.end();
}

SocketAddress Neighbours::own_of_family(const SocketAddress& like) const {
  const auto found =
      std::ranges::find_if(own_, [&](const Own& own) { return own.ip.family() == like.family(); });
  return found == own_.end() ? SocketAddress() : found->ip;
}

Gid Neighbours::solicited_group(const SocketAddress& ip) const {
  return group_gid_of(SocketAddress::ipv6(solicited_node(ip.ipv6_bytes())),
                      GroupUse::ip_over_infiniband, settings_.pkey);
}

void Neighbours::set_own(const std::vector<SocketAddress>& addresses, TimeNs now, Outputs& out) {
  std::erase_if(own_, [&](const Own& own) {
    const bool stays = std::ranges::find(addresses, own.ip) != addresses.end();
    if (!stays && own.ip.is_ipv6()) groups_.unlisten(solicited_group(own.ip), now);
    return !stays;
  });
  for (const SocketAddress& ip : addresses) {
    if (is_own(ip) || own_.size() == kOwnMax) continue;
    own_.push_back({ip, kAnnouncements});
    if (ip.is_ipv6()) groups_.listen(solicited_group(ip), now, out);
    announce_at_ = now;
    set_due(now);
  }
}

void Neighbours::announce(Own& own, TimeNs now, Outputs& out) {
  if (--own.announcements > 0) {
    announce_at_ = now + kAnnounceAgain;
    set_due(announce_at_);
  }
  if (own.ip.is_ipv4()) return send_arp(own.ip, own.ip, nullptr, now, out);
  std::array<std::byte, NeighbourMessage::kSizeMax> bytes;
  const std::size_t length = encode({.kind = NeighbourMessage::Kind::advertisement,
                                     .source = own.ip.ipv6_bytes(),
                                     .destination = kAllNodes,
                                     .target = own.ip.ipv6_bytes(),
                                     .overrides = true,
                                     .address = settings_.own},
                                    bytes);
  const Gid all =
      group_gid_of(SocketAddress::ipv6(kAllNodes), GroupUse::ip_over_infiniband, settings_.pkey);
  groups_.send(all, EtherType::ipv6, keep(ByteSpan(bytes).first(length)), now, out);
}

void Neighbours::send_arp(const SocketAddress& ip, const SocketAddress& source,
                          const Neighbour* known, TimeNs now, Outputs& out) {
  const SocketAddress from = source.is_ipv4() ? source : own_of_family(ip);
  std::array<std::byte, Arp::kSize> bytes{};
  encode({.operation = Arp::Operation::request,
          .sender = settings_.own,
          .sender_ip = from.ipv4_bytes(),
          .target = known != nullptr ? known->address : HardwareAddress{},
          .target_ip = ip.ipv4_bytes()},
         bytes);
  const ByteSpan packet = keep(bytes);
  if (known != nullptr)
    return send_by(*known->path, known->address.qpn, EtherType::arp, packet, out);
  groups_.send(settings_.broadcast, EtherType::arp, packet, now, out);
}

void Neighbours::send_solicitation(const SocketAddress& ip, const SocketAddress& source,
                                   const Neighbour* known, TimeNs now, Outputs& out) {
  const SocketAddress from = source.is_ipv6() ? source : own_of_family(ip);
  if (from.empty()) return;  // No address on this link: none can be told.
  std::array<std::byte, NeighbourMessage::kSizeMax> bytes;
  const std::size_t length =
      encode({.kind = NeighbourMessage::Kind::solicitation,
              .source = from.ipv6_bytes(),
              .destination = known != nullptr ? ip.ipv6_bytes() : solicited_node(ip.ipv6_bytes()),
              .target = ip.ipv6_bytes(),
              .address = settings_.own},
             bytes);
  const ByteSpan packet = keep(ByteSpan(bytes).first(length));
  if (known != nullptr)
    return send_by(*known->path, known->address.qpn, EtherType::ipv6, packet, out);
  groups_.send(solicited_group(ip), EtherType::ipv6, packet, now, out);
}

/// To a peer that is no neighbour of ours, perhaps.
void Neighbours::send_answer(const HardwareAddress& to, EtherType type, ByteSpan packet,
                             Outputs& out) {
  if (Path* const path = path_to(to.gid, out)) send_by(*path, to.qpn, type, keep(packet), out);
}

/// A restarted peer says its new queue pair number unasked.
void Neighbours::on_arp(const Arp& arp, TimeNs now, Outputs& out) {
  const bool is_for_us = is_own(SocketAddress::ipv4(arp.target_ip));
  if (arp.sender == settings_.own) return;
  if (arp.sender_ip != Ipv4{})
    learn(SocketAddress::ipv4(arp.sender_ip), arp.sender, true, is_for_us, now, out);
  if (arp.operation == Arp::Operation::request && is_for_us) answer(arp, out);
}

void Neighbours::answer(const Arp& arp, Outputs& out) {
  if (arp.sender.gid.is_zero() || arp.sender.gid.is_multicast()) return;
  std::array<std::byte, Arp::kSize> bytes{};
  encode({.operation = Arp::Operation::reply,
          .sender = settings_.own,
          .sender_ip = arp.target_ip,
          .target = arp.sender,
          .target_ip = arp.sender_ip},
         bytes);
  send_answer(arp.sender, EtherType::arp, bytes, out);
}

void Neighbours::on_message(const NeighbourMessage& message, TimeNs now, Outputs& out) {
  if (message.address == settings_.own) return;
  const auto target = SocketAddress::ipv6(message.target);
  if (message.kind == NeighbourMessage::Kind::advertisement) {
    if (!message.address) return;
    return learn(target, *message.address, message.overrides, false, now, out);
  }
  const bool is_for_us = is_own(target);
  if (message.address)
    learn(SocketAddress::ipv6(message.source), *message.address, true, is_for_us, now, out);
  if (is_for_us) answer(message, now, out);
}

/// Who looks for a duplicate of an address has none yet: all are told (RFC 4861, 7.2.4).
void Neighbours::answer(const NeighbourMessage& solicitation, TimeNs now, Outputs& out) {
  const bool is_detection = solicitation.source == Ipv6{};
  std::array<std::byte, NeighbourMessage::kSizeMax> bytes;
  const std::size_t length = encode({.kind = NeighbourMessage::Kind::advertisement,
                                     .source = solicitation.target,
                                     .destination = is_detection ? kAllNodes : solicitation.source,
                                     .target = solicitation.target,
                                     .is_solicited = !is_detection,
                                     .overrides = true,
                                     .address = settings_.own},
                                    bytes);
  const ByteSpan packet = ByteSpan(bytes).first(length);
  if (is_detection) {
    const Gid all =
        group_gid_of(SocketAddress::ipv6(kAllNodes), GroupUse::ip_over_infiniband, settings_.pkey);
    return groups_.send(all, EtherType::ipv6, keep(packet), now, out);
  }
  const auto known = neighbours_.find(SocketAddress::ipv6(solicitation.source));
  if (solicitation.address) return send_answer(*solicitation.address, EtherType::ipv6, packet, out);
  if (known != neighbours_.end() && known->second.path != nullptr)
    send_answer(known->second.address, EtherType::ipv6, packet, out);
}

}  // namespace verbatim::ulp::ipoib
