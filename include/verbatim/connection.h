#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <verbatim/queue_pair.h>

namespace verbatim::inline v1 {

/// Parameters of connecting. The peer gets `data` as `QueuePair::peer_data`; one or several region
/// tokens fit into it.
struct ConnectOptions {
  QueuePairOptions queue_pair = {};
  /// With rdma_cm at most 56 bytes (connect) and 196 (accept); with an exchange 64 KiB.
  std::vector<std::byte> data = {};
  std::chrono::milliseconds timeout{10'000};
  std::string source = {};  ///< Local IP address; empty: chosen by the route.
};

/// Connects by rdma_cm (IBA volume 1, annex A11; over iWARP, MPA) to `host` (a name or an IP
/// address). Uses the device that the route leads to: fails with `Call::connect` if the domain
/// belongs to another. Blocks.
Result<QueuePair> connect(const ProtectionDomain& domain, const std::string& host,
                          std::uint16_t port, const ConnectOptions& options = {});

/// A peer that wants to connect. Destroying it rejects the peer.
class ConnectionRequest {
 public:
  std::span<const std::byte> peer_data() const noexcept;
  std::string peer_address() const;
  Result<QueuePair> accept(const ConnectOptions& options = {}) &&;
  /// `data`: at most 148 bytes. The peer finds them in rdma_cm's event; a `Failure` does not
  /// contain them.
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
  std::uint16_t port = 0;    ///< 0: a free one, see `Listener::port`.
  int backlog = 128;
};

/// Listens for connections by rdma_cm. Several threads may call `next` at the same time.
class Listener {
 public:
  static Result<Listener> open(const ProtectionDomain& domain, const ListenOptions& options = {});

  /// Returns the next peer that wants to connect; fails with `Status::timed_out`. A negative
  /// `timeout` has no limit.
  Result<ConnectionRequest> next(std::chrono::milliseconds timeout = std::chrono::milliseconds{-1});
  /// Accepts the next peer.
  Result<QueuePair> accept(const ConnectOptions& options = {},
                           std::chrono::milliseconds timeout = std::chrono::milliseconds{-1});
  std::uint16_t port() const noexcept;
  /// Readable while a peer waits.
  int event_descriptor() const noexcept;

  Listener(Listener&&) noexcept;
  Listener& operator=(Listener&&) noexcept;
  ~Listener();

 private:
  struct State;
  explicit Listener(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace verbatim::inline v1
