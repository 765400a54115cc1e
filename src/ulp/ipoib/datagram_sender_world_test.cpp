#include <map>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "ulp/ipoib/bench_for_test.h"

/// A sender with a subnet, a kernel and peers that do anything, by seed.
namespace verbatim::ulp::ipoib {
namespace {

class World {
 public:
  World(unsigned seed, std::uint8_t flags)
      : random_(seed),
        flags_(flags),
        sender_({.own = {.flags = flags, .qpn = Qpn(1), .gid = {}},
                 .broadcast = SenderBench::kPeer,
                 .datagram_mtu = kDatagramMtu},
                now_, out_) {
    take_outputs();
  }

  void step() {
    now_ += below(4) == 0 ? below(20) * kSecond : 0;
    switch (below(flags_ == 0 ? 9 : 11)) {
      case 0:
        return sender_.on_time(now_, out_), take_outputs();
      case 1:
        return on_arp();
      case 2:
        return on_message();
      case 3:
        return answer_path();
      case 4:
        return answer_group();
      case 5:
        sender_.on_report(group(), below(2) == 0, now_, out_);
        return take_outputs();
      case 6:
        return below(20) == 0 ? change() : send();
      case 9:
        return on_connection();
      default:
        return send();
    }
  }

 private:
  std::uint64_t below(std::uint64_t end) { return random_() % end; }
  SocketAddress host() {
    const auto last = static_cast<std::uint8_t>(below(40));
    if (below(2) == 0) return SocketAddress::ipv4({10, 9, 0, last});
    return SocketAddress::ipv6({0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last});
  }
  SocketAddress group() {
    return SocketAddress::ipv4({239, 1, 1, static_cast<std::uint8_t>(below(30))});
  }
  HardwareAddress hardware() {
    HardwareAddress address{.flags = below(4) == 0 ? std::uint8_t{0} : flags_,
                            .qpn = Qpn(static_cast<std::uint32_t>(below(40) + 2))};
    address.gid.bytes[0] = below(20) == 0 ? 0xff : 0xfe;
    address.gid.bytes[15] = static_cast<std::uint8_t>(below(6));
    return address;
  }

  void send() {
    const std::uint64_t most = flags_ == 0 ? 100 : 4000;
    packet_ = packet_to(below(4) == 0 ? group() : host(), 40 + below(most));
    sender_.on_packet(packet_, now_, out_);
    take_outputs();
  }
  void on_arp() {
    const SocketAddress from =
        SocketAddress::ipv4({10, 9, 0, static_cast<std::uint8_t>(below(40))});
    const SocketAddress to = SocketAddress::ipv4({10, 9, 0, static_cast<std::uint8_t>(below(3))});
    sender_.on_arp({.operation = below(2) == 0 ? Arp::Operation::request : Arp::Operation::reply,
                    .sender = hardware(),
                    .sender_ip = from.ipv4_bytes(),
                    .target = {},
                    .target_ip = to.ipv4_bytes()},
                   now_, out_);
    take_outputs();
  }
  void on_message() {
    using Kind = NeighbourMessage::Kind;
    NeighbourMessage message{.kind = below(2) == 0 ? Kind::solicitation : Kind::advertisement,
                             .source = host().ipv6_bytes(),
                             .destination = kAllNodes,
                             .target = host().ipv6_bytes(),
                             .overrides = below(2) == 0,
                             .address = {}};
    if (below(4) > 0) message.address = hardware();
    sender_.on_message(message, now_, out_);
    take_outputs();
  }
  void answer_path() {
    if (asked_.empty()) return;
    const Gid gid = asked_[below(asked_.size())];
    std::erase(asked_, gid);
    std::optional<WayId> way;
    if (below(8) > 0) paths_.insert(*(way = WayId{++last_way_}));
    sender_.on_path(gid, way, now_, out_);
    take_outputs();
  }
  void answer_group() {
    if (joined_.empty()) return;
    auto at = std::next(joined_.begin(), static_cast<long>(below(joined_.size())));
    at->second = below(6) > 0 ? std::optional(WayId{++last_way_}) : std::nullopt;
    const auto way = at->second;
    const Gid gid = at->first;
    if (!way) joined_.erase(at);
    sender_.on_group(gid, way, now_, out_);
    take_outputs();
  }
  /// A connection is made, or ends, or has sent something.
  void on_connection() {
    if (connections_.empty()) return;
    const auto at = std::next(connections_.begin(), static_cast<long>(below(connections_.size())));
    Connection& connection = at->second;
    const PeerId peer = at->first;
    if (below(4) == 0) {
      connections_.erase(at);
      sender_.on_ended(peer, below(2) == 0, now_, out_);
    } else if (connection.mtu > 0) {
      if (connection.in_flight > 0) --connection.in_flight;
      sender_.on_sent(peer, now_);
    } else {
      const ConnectedPeer offer{.datagrams = Qpn(7),
                                .receive_bytes = static_cast<std::uint32_t>(below(5000))};
      connection.mtu = offer.receive_bytes > 4 ? offer.mtu() : 0;
      sender_.on_connected(peer, encode(offer), now_, out_);
    }
    take_outputs();
  }
  void change() {
    if (below(2) == 0) sender_.forget_routes();
    if (below(2) == 0) sender_.forget_paths(now_, out_);
    take_outputs();
    sender_.set_own({host(), host()}, now_, out_);
    take_outputs();
  }

  void take_outputs() {
    const Outputs outputs = out_;
    std::vector<SocketAddress> hops;
    out_.clear();
    for (const Output& output : outputs) {
      std::visit(
          Overloaded{
              [&](const SendPacket& sent) { expect_open(sent); },
              [&](const AskNextHop& asked) { hops.push_back(asked.address); },
              [&](const AskPath& asked) { asked_.push_back(asked.gid); },
              [&](const CloseWay& close) { EXPECT_EQ(paths_.erase(close.way), 1u); },
              [&](const Join& join) { joined_.try_emplace(join.group); },
              [&](const Leave& leave) { EXPECT_EQ(joined_.erase(leave.group), 1u); },
              [&](const Connect& wanted) { expect_fits(wanted); },
              [&](const SendByConnection& sent) { expect_open(sent); },
              [&](const EndConnection& over) { EXPECT_EQ(connections_.erase(over.peer), 1u); },
              [&](const TellTooLong& told) { EXPECT_GT(told.packet.size(), told.mtu); }},
          output);
    }
    for (const SocketAddress& hop : hops) {
      sender_.on_next_hop(hop,
                          {.kind = below(9) > 0 ? NextHop::Kind::neighbour : NextHop::Kind::none,
                           .hop = hop,
                           .source = {}},
                          now_, out_);
      take_outputs();
    }
  }
  void expect_open(const SendPacket& sent) {
    EXPECT_FALSE(sent.packet.empty());
    EXPECT_LE(sent.packet.size(), flags_ == 0 ? kConnectedMtu : kDatagramMtu);
    if (sent.to.qpn != kMulticastQpn) {
      EXPECT_TRUE(paths_.contains(sent.to.way));
      return;
    }
    const bool is_joined =
        std::ranges::any_of(joined_, [&](const auto& one) { return one.second == sent.to.way; });
    EXPECT_TRUE(is_joined);
  }

  void expect_fits(const Connect& wanted) {
    EXPECT_TRUE(wanted.to.takes_connections());
    EXPECT_TRUE(connections_.try_emplace(wanted.peer).second);
    EXPECT_LE(connections_.size(), Connections::kConnectionsMax);
  }
  void expect_open(const SendByConnection& sent) {
    Connection& connection = connections_[sent.peer];
    EXPECT_LE(sent.packet.size(), connection.mtu);
    EXPECT_LE(++connection.in_flight, Connections::kInFlight);
  }

  static constexpr std::uint32_t kDatagramMtu = 2044;
  struct Connection {
    std::uint32_t mtu = 0;  // 0: not yet there.
    std::uint32_t in_flight = 0;
  };
  std::mt19937_64 random_;
  const std::uint8_t flags_;
  TimeNs now_ = kSecond;
  Outputs out_;
  DatagramSender sender_;
  Packet packet_;
  std::vector<Gid> asked_;
  std::set<WayId> paths_;                       // Open.
  std::map<Gid, std::optional<WayId>> joined_;  // Empty: not yet answered.
  std::uint32_t last_way_ = 0;
  std::map<PeerId, Connection> connections_;
};

/// Each way is closed once, nothing is sent by a way or a connection that is closed, or longer than
/// it takes, and no output is lost.
TEST(IpoibWorld, AnyOrderOfInputsKeepsThePromises) {
  for (const std::uint8_t flags : {std::uint8_t{0}, HardwareAddress::kConnected}) {
    for (unsigned seed = 1; seed <= 40; ++seed) {
      SCOPED_TRACE(fmt::format("flags {}, seed {}", flags, seed));
      World world(seed, flags);
      for (int step = 0; step < 3'000 && !testing::Test::HasFailure(); ++step) world.step();
    }
  }
}

}  // namespace
}  // namespace verbatim::ulp::ipoib
