#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/time.h"
#include "ulp/engine/meeting.h"
#include "ulp/rds/congestion.h"
#include "ulp/rds/connection.h"
#include "ulp/rds/outside.h"
#include "ulp/rds/peer.h"
#include "ulp/rds/ports.h"

namespace verbatim::ulp::rds {

/// All RDS sockets of a node, and its connections: one for each pair of addresses.
class Broker {
 public:
  struct Options {
    std::uint64_t seed = 1;
    std::uint64_t first_sequence = 1;  // Higher than that of an earlier broker of this node.
    std::size_t peers_max = 256;
    std::size_t sockets_max = 1024;
    /// Of one peer's messages that programs have not read. More ends the queue pair, and the peer
    /// sends again what was not acknowledged.
    std::uint64_t held_bytes_max = 4 << 20;
    /// Messages of closed sockets to a peer that is not there are dropped then.
    TimeNs give_up_after = 30 * kSecond;
  };
  Broker(Outside& outside, Fragments& pool, const Options& options);

  /// What a program may ask of its socket. Errors are Linux's.
  struct Socket {
    SocketAddress own;   // Empty: not bound.
    SocketAddress peer;  // Where messages without an address go; empty: nowhere.
    std::uint8_t tos = 0;
    std::uint32_t send_limit = kMessageBytesMax;         // SO_SNDBUF
    std::uint32_t receive_limit = 2 * kMessageBytesMax;  // SO_RCVBUF
    bool monitors = false;                               // RDS_CONG_MONITOR
    bool tells_errors = false;                           // RDS_RECVERR

    // The broker's.
    struct Held {
      Peer* of = nullptr;  // Null: of this node.
      SocketAddress from;
      std::vector<std::byte> bytes{};
      std::optional<RemoteMemory> offered{};
      std::optional<MemoryKey> used{};
      std::optional<Notice> notice{};
    };
    std::uint64_t send_bytes = 0;  // Not acknowledged.
    std::deque<Held> held{};       // Until the program's socket has room.
    std::uint64_t held_bytes = 0;
    bool is_paused = false;
    bool is_congested = false;
    std::uint64_t refused_ports = 0;  // Congested ones, as bits: it is told when they are not.
    std::uint64_t sent = 0, received = 0;
  };
  Result<void> open(SocketId socket);
  void close(SocketId socket);
  Socket* find(SocketId socket);
  /// The socket that is bound there, or none.
  SocketId at(const SocketAddress& address) const { return ports_.find(address); }
  Result<SocketAddress> bind(SocketId socket, const SocketAddress& address);
  Result<void> connect(SocketId socket, const SocketAddress& peer);

  /// A message in fragments, with room for headers; the broker has them from now on. `to`: empty
  /// for the socket's peer.
  Result<void> send(SocketId socket, const SocketAddress& to, Parcel parcel, TimeNs now);
  /// Whether the destination's port is free, and the socket's send buffer has room. If not:
  /// `waiter` 0 is refused (ENOBUFS, EAGAIN), any other is told later by `Outside::let_send`
  /// (EINPROGRESS).
  Result<void> may_send(SocketId socket, const SocketAddress& to, std::uint64_t waiter);
  /// RDS_CANCEL_SENT_TO: drops messages to `to` (empty: all) of which nothing is sent.
  void cancel(SocketId socket, const SocketAddress& to);
  /// The program's socket has room again.
  void on_room(SocketId socket);

  void on_requested(LinkId link, const Meeting& meeting, TimeNs now);
  void on_established(LinkId link, ByteSpan private_data, TimeNs now);
  void on_message(LinkId link, ByteSpan fragment, TimeNs now);
  void on_done(LinkId link, Tag tag);
  void on_failed(LinkId link, Tag tag, OperationStatus status);
  void on_end(LinkId link, const std::string& words, TimeNs now);

  /// Sends what inputs have left to be sent: after each batch of them.
  void flush();
  bool is_dirty() const { return !dirty_.empty(); }
  TimeNs deadline() const { return next_retry_; }
  void on_time(TimeNs now);

  /// Nothing is unacknowledged.
  bool is_idle() const;
  const std::unordered_map<Pair, std::unique_ptr<Peer>, HashOfPair>& peers() const {
    return peers_;
  }
  const std::map<SocketId, Socket>& sockets() const { return sockets_; }
  struct Counters {
    std::uint64_t pings = 0;
    std::uint64_t no_socket = 0;  // Messages to a port where nobody is.
    std::uint64_t refused = 0;    // Requests of peers.
    std::uint64_t faults = 0;     // Queue pairs that broke the rules.
    std::uint64_t given_up = 0;   // Messages of closed sockets.
  };
  const Counters& counters() const { return counters_; }

 private:
  struct Waiter {
    SocketId socket{};
    SocketAddress to;
    std::uint64_t number = 0;
  };
  Peer* find(LinkId link);
  Result<Peer*> peer_of(const Pair& pair);
  bool forget_one();
  Result<SocketAddress> destination(const Socket& socket, const SocketAddress& to) const;
  void mark(Peer& peer);
  void begin(Peer& peer, TimeNs now);
  void retry_later(Peer& peer, TimeNs now);
  void reject(LinkId link, const std::string& words);
  void end(Peer& peer, const char* words);
  void release(Peer& peer);
  void give_back(const Parcel& parcel);

  void on_map(Peer& peer, ByteSpan bytes);
  bool route(Peer& peer, const Connection::Arrival& arrival);
  void answer_ping(Peer& peer, std::uint16_t port);
  void send_here(SocketId socket, const SocketAddress& from, const SocketAddress& to,
                 const Parcel& parcel);
  void hand_over(SocketId id, Socket& socket, Peer* of, const Delivery& delivery);
  void set_congested(const Socket& socket, bool is_congested);
  bool is_congested(const Socket& socket, const SocketAddress& to) const;
  void on_uncongested(std::uint64_t ports);
  void let_send();
  void show_congestion();
  CongestionMap& map_of(const SocketAddress& own);

  Outside& outside_;
  Fragments& pool_;
  const Options options_;
  std::mt19937_64 random_;
  Ports ports_;
  std::map<SocketId, Socket> sockets_;
  std::unordered_map<Pair, std::unique_ptr<Peer>, HashOfPair> peers_;
  std::unordered_map<LinkId, Peer*> links_;
  std::unordered_map<SocketAddress, CongestionMap> maps_;  // Of own addresses.
  std::vector<Waiter> waiters_;
  std::vector<Peer*> dirty_;
  TimeNs next_retry_ = kNever;
  std::uint32_t congested_sockets_ = 0;
  Counters counters_;
};

}  // namespace verbatim::ulp::rds
