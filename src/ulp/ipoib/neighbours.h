#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/net/address.h"
#include "base/time.h"
#include "ulp/ipoib/connections.h"
#include "ulp/ipoib/groups.h"
#include "ulp/ipoib/outputs.h"
#include "ulp/ipoib/wire/arp.h"
#include "ulp/ipoib/wire/neighbour_message.h"

namespace verbatim::ulp::ipoib {

/// Who the peers of an interface are: ARP and neighbour discovery between addresses of 20 bytes,
/// and the paths to their ports. A pure step.
///
///     asking --ARP reply, advertisement--> known --kReachable, if used--> probed (by a datagram)
///       ^                                    ^------------answer-----------'  |
///       '-------------------------- three probes without an answer -----------'
class Neighbours {
 public:
  static constexpr std::size_t kWaiting = 3;  // As Linux.
  static constexpr std::size_t kNeighboursMax = 4096, kPathsMax = 4096, kWaitingOfPath = 16;
  static constexpr TimeNs kAskAgain = kSecond, kReachable = 30 * kSecond, kIdle = 300 * kSecond;
  static constexpr unsigned kTries = 3;
  static constexpr std::size_t kOwnMax = 64;  // Addresses of the interface.

  struct Settings {
    HardwareAddress own;
    Gid broadcast{};
    PKey pkey = kDefaultPKey;
    std::uint32_t datagram_mtu = kConnectedMtu;  // Of packets in datagrams.
    /// In connected mode our own address says that we take connections.
    bool is_connected() const { return own.takes_connections(); }
  };
  Neighbours(const Settings& settings, Groups& groups, Connections& connections,
             std::vector<Packet>& released, SenderCounters& counters)
      : settings_(settings),
        groups_(groups),
        connections_(connections),
        released_(released),
        counters_(counters) {}

  /// The peer with this address, which is on the link. `source`: of ours, for the question.
  void send(const SocketAddress& hop, const SocketAddress& source, ByteSpan packet, TimeNs now,
            Outputs& out);

  /// Who has this address, without a packet: nothing while it is being asked for.
  std::optional<HardwareAddress> find(const SocketAddress& hop, const SocketAddress& source,
                                      TimeNs now, Outputs& out);

  /// Those with this address are asked for anew, and what waited for it is sent when they answer.
  void on_lost(Connections::Lost& lost, TimeNs now, Outputs& out);

  /// Addresses of the interface: new ones are announced, twice.
  void set_own(const std::vector<SocketAddress>& addresses, TimeNs now, Outputs& out);
  bool is_own(const SocketAddress& address) const;

  void on_arp(const Arp& arp, TimeNs now, Outputs& out);
  void on_message(const NeighbourMessage& message, TimeNs now, Outputs& out);
  /// Empty: there is none.
  void on_path(const Gid& gid, std::optional<WayId> way, TimeNs now, Outputs& out);
  /// LIDs may be others: paths are asked for again.
  void forget_paths(TimeNs now, Outputs& out);

  void on_time(TimeNs now, Outputs& out);
  TimeNs deadline() const { return due_; }

  struct Shown {
    SocketAddress ip;
    const char* state = "";
    HardwareAddress address;
  };
  std::vector<Shown> shown() const;

 private:
  struct Held {
    EtherType type{};
    Qpn qpn{};
    Packet packet;
  };
  struct Path {
    std::optional<WayId> way;
    std::uint32_t users = 0;  // Neighbours.
    std::vector<Held> waiting;
  };
  enum class State : std::uint8_t { asking, known, probed };
  struct Neighbour {
    SocketAddress source;
    State state{};
    unsigned tries = 0;
    HardwareAddress address;
    Path* path = nullptr;  // From `known` on.
    TimeNs due = kNever;   // Asks again.
    TimeNs stale_at = 0;   // Of a known one.
    TimeNs last_used = 0;
    std::vector<Packet> waiting;
  };
  struct Own {
    SocketAddress ip;
    unsigned announcements = 0;  // Still to come.
  };
  using Map = std::unordered_map<SocketAddress, Neighbour>;

  Neighbour* neighbour_at(const SocketAddress& ip, const SocketAddress& source, TimeNs now,
                          Outputs& out);
  void make_room(Outputs& out);
  void forget(Map::iterator neighbour, Outputs& out);
  void begin_to_ask(const SocketAddress& ip, Neighbour& neighbour, TimeNs now, Outputs& out);
  void ask(const SocketAddress& ip, Neighbour& neighbour, TimeNs now, Outputs& out);
  void on_due(Map::iterator neighbour, TimeNs now, Outputs& out);
  void learn(const SocketAddress& ip, const HardwareAddress& address, bool is_answer,
             bool is_for_us, TimeNs now, Outputs& out);
  void release(const SocketAddress& ip, Neighbour& neighbour, TimeNs now, Outputs& out);
  /// A packet of the kernel's.
  void send_to(const SocketAddress& ip, Neighbour& neighbour, ByteSpan packet, TimeNs now,
               Outputs& out);

  Path* path_to(const Gid& gid, Outputs& out);
  void leave_path(Neighbour& neighbour, Outputs& out);
  /// By the path, now or when it is there.
  void send_by(Path& path, Qpn qpn, EtherType type, ByteSpan packet, Outputs& out);
  void send_answer(const HardwareAddress& to, EtherType type, ByteSpan packet, Outputs& out);
  ByteSpan keep(ByteSpan packet);

  void send_arp(const SocketAddress& ip, const SocketAddress& source, const Neighbour* known,
                TimeNs now, Outputs& out);
  void send_solicitation(const SocketAddress& ip, const SocketAddress& source,
                         const Neighbour* known, TimeNs now, Outputs& out);
  void answer(const Arp& arp, Outputs& out);
  void answer(const NeighbourMessage& solicitation, TimeNs now, Outputs& out);
  void announce(Own& own, TimeNs now, Outputs& out);
  Gid solicited_group(const SocketAddress& ip) const;
  SocketAddress own_of_family(const SocketAddress& like) const;
  void set_due(TimeNs due) { due_ = std::min(due_, due); }

  const Settings settings_;
  Groups& groups_;
  Connections& connections_;
  std::vector<Packet>& released_;
  SenderCounters& counters_;
  std::vector<Own> own_;
  TimeNs announce_at_ = kNever;
  Map neighbours_;
  std::map<Gid, Path> paths_;
  TimeNs due_ = kNever;  // No later than anything that is due.
};

}  // namespace verbatim::ulp::ipoib
