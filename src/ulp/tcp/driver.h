#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/net/address.h"
#include "base/os/unique_fd.h"
#include "service/loop.h"
#include "ulp/rdma/driver.h"

namespace verbatim::ulp::tcp {

using rdma::ConnectionId;
using rdma::ListenerId;

/// Makes sockets elsewhere, as in another network namespace.
class Connector {
 public:
  /// A socket whose connect is under way or done, or why there is none.
  using Give = std::function<void(Result<UniqueFd> socket)>;
  /// Calls `give` once, now or later. Does not wait.
  virtual void connect(const SocketAddress& to, Give give) = 0;

 protected:
  ~Connector() = default;
};

/// Says where the next bytes of a stream go, for a handler that knows it before they come: they are
/// not copied once more then. Driver calls it from its turn.
class Placer {
 public:
  static constexpr std::size_t kPlacesMax = 32;  // More are left for the next read.
  /// Empty: the next bytes come in a message. Stays until `on_placed`, or the next read.
  virtual std::span<const Slice> place_of(ConnectionId connection) = 0;
  /// The first `bytes` of the place are filled. What has come behind them follows in a message.
  virtual void on_placed(ConnectionId connection, std::uint32_t bytes, TimeNs now) = 0;

 protected:
  ~Placer() = default;
};

/// Carries connections over TCP, for the same handlers as the adapter's driver.
class Driver final : public rdma::Carrier, public service::Source {
 public:
  struct Options {
    std::uint32_t connections_max = 1024;
    std::uint32_t first_number =
        0;  // Of connections, where a handler has those of an adapter, too.
    std::uint32_t first_listener = 0;
    Connector* connector = nullptr;  // Null: this process makes the sockets. Gives none after it.
    Placer* placer = nullptr;        // Null: all bytes come in messages,
    std::uint32_t message_bytes = 256 << 10;  // of at most so many.
  };
  /// Both outlive it.
  Driver(rdma::Handler& handler, service::Loop& loop, const Options& options);
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  /// EADDRINUSE, EADDRNOTAVAIL... Port 0: `address_of` tells which.
  Result<ListenerId> listen(const SocketAddress& address, int backlog = 128);
  /// Connections that it has brought go on.
  void unlisten(ListenerId listener);
  SocketAddress address_of(ListenerId listener) const;
  /// Does not wait. `on_established` follows, or `on_end` with the reason. ENOBUFS: too many are
  /// open.
  Result<ConnectionId> connect(const SocketAddress& to);
  std::uint32_t connection_count() const { return count_; }

  Result<void> accept(ConnectionId connection, const QueueSizes&, ByteSpan) override;
  void reject(ConnectionId connection, ByteSpan) override;
  void disconnect(ConnectionId connection, const std::string& words, TimeNs now) override;
  void disconnect_all();
  void carry_out(ConnectionId connection, std::span<const Work> work, TimeNs now) override;
  void post_again(ReceiveId receive) override;

  /// What is written, and what has ended, outside of the handler's calls.
  TimeNs deadline() const override { return touched_.empty() ? kNever : 0; }
  void on_time(TimeNs now) override;

 private:
  static constexpr std::size_t kHeadersMax = 256 << 10;  // That wait to be written.

  /// A message that goes out: its header is copied, its payload stays where it is.
  struct Out {
    std::vector<std::byte> header;
    std::span<const Slice> payload;
    Tag done{};
  };
  struct Peer {
    UniqueFd socket;
    ConnectionId id{};
    std::uint32_t events = 0;  // That the loop watches.
    std::deque<Out> out;
    std::size_t written = 0;  // Of the first one.
    std::size_t header_bytes = 0;
    std::vector<std::byte> kept;  // What has come, while the engine has it.
    bool has_kept = false;
    bool is_known = false;  // The handler has it.
    bool is_connecting = false;
    bool is_ending = false;
    bool is_touched = false;
    std::string words;
  };
  struct Listener {
    UniqueFd socket;
    ListenerId id{};
  };

  Peer* find(ConnectionId connection);
  void touch(Peer& peer);
  void on_connections(const Listener& listener, TimeNs now);
  void add(UniqueFd socket, ListenerId listener, TimeNs now);
  Result<UniqueFd> begin_connect(const SocketAddress& to);
  void take_socket(ConnectionId connection, Result<UniqueFd> socket);
  Result<Peer*> make_peer(UniqueFd socket, std::uint32_t events);
  void take_socket(Peer& peer, UniqueFd socket, std::uint32_t events);
  void on_connected(Peer& peer, TimeNs now);
  void on_ready(Peer& peer, std::uint32_t events, TimeNs now);
  void read(Peer& peer, TimeNs now);
  void on_bytes(Peer& peer, std::uint32_t bytes, TimeNs now);
  /// Returns true if anything was written.
  bool write(Peer& peer);
  void serve(Peer& peer, TimeNs now);
  void give_back_written(Peer& peer, TimeNs now);
  void watch(Peer& peer);
  void end(Peer& peer, std::string words);
  void finish(Peer& peer, TimeNs now);

  rdma::Handler& handler_;
  service::Loop& loop_;
  const Options options_;
  std::deque<Listener> listeners_;
  std::vector<std::unique_ptr<Peer>> peers_;  // By number.
  std::vector<std::uint8_t> counts_;          // How often a number was used.
  std::vector<ConnectionId> touched_;
  std::vector<std::byte> chunk_;
  std::uint32_t count_ = 0;
  WorkList work_;
};

}  // namespace verbatim::ulp::tcp
