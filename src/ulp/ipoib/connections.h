#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/net/address.h"
#include "base/time.h"
#include "ulp/ipoib/outputs.h"
#include "ulp/ipoib/wire/connected_peer.h"

namespace verbatim::ulp::ipoib {

/// Connections by which packets go to peers that have connected mode (RFC 4755): one for each peer,
/// used in one direction, for the peer makes its own. A pure step.
///
///     asked --on_connected--> open --idle--> (forgotten)
///      ^ |                     | it ends: lost
///      | '--on_ended, time--> closed: datagrams, and a new try with a later packet
///      '------------------------'
///
/// What fits into a datagram goes as one until the connection is there.
class Connections {
 public:
  static constexpr std::size_t kConnectionsMax = 128;  // As many as Linux takes without an SRQ.
  static constexpr std::size_t kWaiting = 16;          // Packets too long for a datagram.
  static constexpr std::uint32_t kInFlight = 64;       // Half of the interface's buffers.
  static constexpr TimeNs kPatience = 10 * kSecond;    // For an answer.
  static constexpr TimeNs kStuck = 5 * kSecond;        // Nothing of what is in flight has left.
  static constexpr TimeNs kSlow = kSecond / 2;         // The same: its full queue holds up nobody.
  static constexpr TimeNs kIdle = 300 * kSecond;
  static constexpr TimeNs kTryAgain = kSecond, kRefused = 60 * kSecond;
  static constexpr unsigned kTries =
      3;  // Then the peer counts as one of datagrams, for `kRefused`.

  /// `datagram_mtu`: of peers without connected mode.
  Connections(std::uint32_t datagram_mtu, std::vector<Packet>& released, SenderCounters& counters)
      : datagram_mtu_(datagram_mtu), released_(released), counters_(counters) {}
  void set_datagram_mtu(std::uint32_t bytes) { datagram_mtu_ = bytes; }
  std::uint32_t datagram_mtu() const { return datagram_mtu_; }

  /// Takes the packet, which may be dropped, or says that it is to go as a datagram. `hop`: the
  /// peer's IP address.
  enum class Use : bool { taken, datagram };
  Use send(const HardwareAddress& to, const SocketAddress& hop, ByteSpan packet, TimeNs now,
           Outputs& out);

  void on_connected(PeerId id, ByteSpan private_data, TimeNs now, Outputs& out);
  void on_sent(PeerId id, TimeNs now);
  /// The connection is over, or was never made. `is_refused`: the peer's protocol does not want it.
  void on_ended(PeerId id, bool is_refused, TimeNs now, Outputs& out);

  /// The queue of a peer is full: its next packets would be dropped, so the kernel keeps its own
  /// until some have left. One from which none leaves for `kSlow` does not count: others go on.
  bool is_full() const { return full_ > 0; }

  void on_time(TimeNs now, Outputs& out);
  TimeNs deadline() const { return lost_.empty() ? due_ : 0; }

  struct Held {
    SocketAddress hop;
    Packet packet;
  };
  /// Nobody can be reached at this address: perhaps the peer begins anew, by another one. What has
  /// waited for the connection is to be sent again.
  struct Lost {
    HardwareAddress address;
    std::vector<Held> waiting;
  };
  /// After each input.
  std::optional<Lost> take_lost();

  struct Shown {
    HardwareAddress address;
    const char* state = "";
    std::uint32_t mtu = 0;  // Of an open one.
  };
  std::vector<Shown> shown() const;

 private:
  /// Whom it leads to: flags of an address say nothing of that.
  struct Key {
    Gid gid{};
    Qpn qpn{};
    auto operator<=>(const Key&) const = default;
  };
  enum class State : std::uint8_t { asked, open, closed };
  struct Peer {
    HardwareAddress address;
    State state = State::closed;
    PeerId id{};
    std::uint32_t mtu = 0;
    std::uint32_t in_flight = 0;
    unsigned failures = 0;  // Since something was sent.
    bool is_refused = false;
    bool is_full = false;  // And counts as such.
    TimeNs due =
        0;  // asked: gives up; open: looks whether it is idle or stuck; closed: tries again.
    TimeNs last_used = 0, progress = 0;
    std::vector<Held> waiting;
  };
  using Map = std::map<Key, Peer>;

  Peer& peer_at(const HardwareAddress& to, TimeNs now, Outputs& out);
  Peer* find(PeerId id);
  void make_room(Outputs& out);
  void ask(Peer& peer, TimeNs now, Outputs& out);
  void send_open(Peer& peer, const SocketAddress& hop, ByteSpan packet, TimeNs now, Outputs& out);
  Use send_closed(const Peer& peer, const SocketAddress& hop, ByteSpan packet, Outputs& out);
  void tell(ByteSpan packet, const SocketAddress& hop, std::uint32_t mtu, Outputs& out);
  void close(Peer& peer, bool is_refused, TimeNs now, Outputs& out);
  void end(Peer& peer, Outputs& out);
  void set_full(Peer& peer, bool is_full);
  void set_due(Peer& peer, TimeNs due);
  /// False: it is to be forgotten.
  bool on_due(Peer& peer, TimeNs now, Outputs& out);

  std::uint32_t datagram_mtu_;
  std::vector<Packet>& released_;
  SenderCounters& counters_;
  Map peers_;
  std::unordered_map<PeerId, Peer*> by_id_;  // Those that are asked or open.
  std::vector<Lost> lost_;
  std::uint32_t last_id_ = 0;
  std::size_t full_ = 0;  // Peers.
  TimeNs due_ = kNever;   // No later than that of any peer.
};

}  // namespace verbatim::ulp::ipoib
