#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/overloaded.h"
#include "ulp/ipoib/datagram_sender.h"
#include "ulp/ipoib/wire/ip.h"

/// A datagram sender in virtual time: each call is one input, and returns its outputs as text.
namespace verbatim::ulp::ipoib {

inline SocketAddress address(std::string_view text) { return SocketAddress::parse(text).value(); }

/// An IP packet without a payload that means anything.
inline Packet packet_to(const SocketAddress& destination, std::size_t bytes) {
  Packet packet(bytes);
  packet[0] = std::byte{destination.is_ipv4() ? std::uint8_t{0x45} : std::uint8_t{0x60}};
  const auto copy = [&](const auto& from, std::size_t at) {
    std::memcpy(&packet[at], from.data(), from.size());
  };
  destination.is_ipv4() ? copy(destination.ipv4_bytes(), 16) : copy(destination.ipv6_bytes(), 24);
  return packet;
}

class SenderBench {
 public:
  static constexpr Gid kPeer{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 0xc9, 3, 0, 0x31, 0x78, 0xf2}};
  static constexpr HardwareAddress kOwn{
      .qpn = Qpn(0x11),
      .gid = Gid{{0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 2, 0xc9, 3, 0, 0x31, 0x78, 0x01}}};

  static constexpr std::uint8_t kConnected = HardwareAddress::kConnected;

  /// It has the addresses 10.9.0.1 and fe80::1, and has announced them. `flags`: its mode.
  explicit SenderBench(std::uint8_t flags = 0)
      : sender({.own = {.flags = flags, .qpn = kOwn.qpn, .gid = kOwn.gid},
                .broadcast = kBroadcast,
                .datagram_mtu = 2044},
               now, out_) {
    beginning = printed();
    for (const auto group : {"ff12:401b:ffff::ffff:ffff", "ff12:401b:ffff::1", "ff12:601b:ffff::1"})
      this->group(group, next_way_++);
    sender.set_own({address("10.9.0.1"), address("fe80::1")}, now, out_);
    printed();
    this->group("ff12:601b:ffff::1:ff00:1", next_way_++);
    announcements = time(now);
    time(now + kSecond);
  }

  std::string packet(std::string_view to, std::size_t bytes) {
    last_ = packet_to(address(to), bytes);
    return sender.on_packet(last_, now, out_), printed();
  }
  std::string next_hop(std::string_view to, std::string_view hop) {
    const NextHop next{.kind = hop.empty() ? NextHop::Kind::none : NextHop::Kind::neighbour,
                       .hop = hop.empty() ? SocketAddress() : address(hop),
                       .source = {}};
    return sender.on_next_hop(address(to), next, now, out_), printed();
  }
  /// Where a program's destination leads: the peer's port, or what is asked.
  std::string find(std::string_view hop) {
    const NextHop next{
        .kind = NextHop::Kind::neighbour, .hop = address(hop), .source = address("10.9.0.1")};
    const auto found = sender.find(next, now, out_);
    return found ? gid_text(found->gid) + printed() : printed();
  }
  std::string arp(Arp::Operation operation, std::string_view ip, std::uint32_t qpn,
                  std::string_view target = "10.9.0.1", const Gid& gid = kPeer,
                  std::uint8_t flags = 0) {
    const Arp arp{.operation = operation,
                  .sender = {.flags = flags, .qpn = Qpn(qpn), .gid = gid},
                  .sender_ip = address(ip).ipv4_bytes(),
                  .target = {},
                  .target_ip = address(target).ipv4_bytes()};
    return sender.on_arp(arp, now, out_), printed();
  }
  std::string message(const NeighbourMessage& message) {
    return sender.on_message(message, now, out_), printed();
  }
  std::string path(std::optional<std::uint32_t> way, const Gid& gid = kPeer) {
    const auto named = way ? std::optional(WayId{*way}) : std::nullopt;
    return sender.on_path(gid, named, now, out_), printed();
  }
  std::string group(std::string_view gid, std::optional<std::uint32_t> way) {
    const auto named = way ? std::optional(WayId{*way}) : std::nullopt;
    return sender.on_group(Gid{address(gid).ipv6_bytes()}, named, now, out_), printed();
  }
  /// The kernel says that it is in the group, or no longer.
  std::string report(std::string_view group, bool is_member) {
    return sender.on_report(address(group), is_member, now, out_), printed();
  }
  std::string forget_paths() { return sender.forget_paths(now, out_), printed(); }
  std::string time(TimeNs at) { return sender.on_time(now = at, out_), printed(); }

  /// The peer 10.9.0.2 is known: queue pair 0x48 by way 0x50.
  void know_peer(std::uint8_t flags = 0) {
    packet("10.9.0.2", 100);
    next_hop("10.9.0.2", "10.9.0.2");
    arp(Arp::Operation::reply, "10.9.0.2", 0x48, "10.9.0.1", kPeer, flags);
    path(0x50);
  }

  /// Connections, by their numbers.
  std::string connected(std::uint32_t peer, std::uint32_t receive_bytes) {
    const auto data = encode(ConnectedPeer{.datagrams = Qpn(0x48), .receive_bytes = receive_bytes});
    return sender.on_connected(PeerId{peer}, data, now, out_), printed();
  }
  std::string connected(std::uint32_t peer, ByteSpan private_data) {
    return sender.on_connected(PeerId{peer}, private_data, now, out_), printed();
  }
  std::string ended(std::uint32_t peer, bool is_refused = false) {
    return sender.on_ended(PeerId{peer}, is_refused, now, out_), printed();
  }

  TimeNs now = 0;
  std::string beginning, announcements;

 private:
  static constexpr Gid kBroadcast{
      {0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}};

  std::string printed() {
    std::vector<std::string> lines;
    for (const Output& output : out_)
      lines.push_back(std::visit([](const auto& o) { return text(o); }, output));
    out_.clear();
    return fmt::format("{}", fmt::join(lines, ", "));
  }
  static std::string text(const Destination& to) {
    if (to.qpn == kMulticastQpn) return fmt::format("group {:#x}", raw(to.way));
    return fmt::format("way {:#x} QP {:#x}", raw(to.way), to.qpn.value());
  }
  static std::string ip_text(const Ipv6& ip) { return SocketAddress::ipv6(ip).ip_text(); }
  static std::string content(const SendPacket& sent) {
    if (sent.type == EtherType::arp) {
      const Arp arp = decode_arp(sent.packet).value();
      return fmt::format("{} {}", arp.operation == Arp::Operation::request ? "who has" : "tell",
                         SocketAddress::ipv4(arp.target_ip).ip_text());
    }
    if (const auto message = decode_neighbour_message(sent.packet)) {
      const bool asks = message->kind == NeighbourMessage::Kind::solicitation;
      return fmt::format("{} {}", asks ? "who has" : "here is", ip_text(message->target));
    }
    return fmt::format("{:04x} {}", raw(sent.type), sent.packet.size());
  }
  static std::string text(const SendPacket& s) { return content(s) + " to " + text(s.to); }
  static std::string text(const AskNextHop& a) { return "next hop of " + a.address.ip_text(); }
  static std::string text(const AskPath& a) { return "path to " + gid_text(a.gid); }
  static std::string text(const CloseWay& c) { return fmt::format("close {:#x}", raw(c.way)); }
  static std::string text(const Join& j) {
    return fmt::format("join {}{}", gid_text(j.group), j.receives ? "" : " to send");
  }
  static std::string text(const Connect& c) {
    return fmt::format("connect {} to QP {:#x}", raw(c.peer), c.to.qpn.value());
  }
  static std::string text(const SendByConnection& s) {
    return fmt::format("{:04x} {} by connection {}", raw(s.type), s.packet.size(), raw(s.peer));
  }
  static std::string text(const EndConnection& e) { return fmt::format("end {}", raw(e.peer)); }
  static std::string text(const TellTooLong& t) {
    return fmt::format("{} is longer than {} of {}", t.packet.size(), t.mtu, t.hop.ip_text());
  }
  static std::string text(const Leave& l) { return "leave " + gid_text(l.group); }

  Packet last_;
  Outputs out_;
  std::uint32_t next_way_ = 1;

 public:
  DatagramSender sender;
};

}  // namespace verbatim::ulp::ipoib
