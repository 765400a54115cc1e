#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <verbatim/queue_pair.h>

namespace verbatim {

/// What one side tells the other while connecting: `QueuePair::peer_data` there. A region token
/// fits; so do several.
struct ConnectOptions {
  QueuePairOptions queue_pair = {};
  /// By rdma_cm at most 56 bytes (connect) and 196 (accept); by exchange 64 KiB.
  std::vector<std::byte> data = {};
  std::chrono::milliseconds timeout{10'000};
  std::string source = {};  ///< Local IP address; empty: the route decides.
};

/// Connects by rdma_cm (IBA volume 1, annex A11; over iWARP, MPA) to `host` (a name or an IP
/// address). Uses the device that the route leads to: fails with `Call::connect` if that is not the
/// domain's. Blocks.
Result<QueuePair> connect(const ProtectionDomain& domain, const std::string& host,
                          std::uint16_t port, const ConnectOptions& options = {});

/// One peer that wants to connect. Dropping it rejects the peer.
class ConnectionRequest {
 public:
  std::span<const std::byte> peer_data() const noexcept;
  std::string peer_address() const;
  Result<QueuePair> accept(const ConnectOptions& options = {}) &&;
  /// `data`: at most 148 bytes, which the peer's failure does not carry, but rdma_cm's event does.
  void reject(std::span<const std::byte> data = {}) &&;

  ConnectionRequest(ConnectionRequest&&) noexcept;
  ConnectionRequest& operator=(ConnectionRequest&&) noexcept;
  ~ConnectionRequest();

 private:
  friend class Listener;
  struct State;
  explicit ConnectionRequest(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

struct ListenOptions {
  std::string address = {};  ///< Local IP address; empty: all.
  std::uint16_t port = 0;    ///< 0: a free one, which `Listener::port` tells.
  int backlog = 128;
};

/// Takes connections by rdma_cm. Any thread may call `next`, several at a time.
class Listener {
 public:
  static Result<Listener> open(const ProtectionDomain& domain, const ListenOptions& options = {});

  /// The next peer that wants to connect; fails with `Status::timed_out`. `timeout` below zero: for
  /// ever.
  Result<ConnectionRequest> next(std::chrono::milliseconds timeout = std::chrono::milliseconds{-1});
  /// The next peer, accepted.
  Result<QueuePair> accept(const ConnectOptions& options = {},
                           std::chrono::milliseconds timeout = std::chrono::milliseconds{-1});
  std::uint16_t port() const noexcept;
  /// Readable when a peer waits.
  int event_descriptor() const noexcept;

  Listener(Listener&&) noexcept;
  Listener& operator=(Listener&&) noexcept;
  ~Listener();

 private:
  struct State;
  explicit Listener(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace verbatim
