#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>

#include <verbatim/memory.h>
#include <verbatim/receive_queue.h>
#include <verbatim/request.h>

namespace verbatim {

/// Sizes of a queue pair, and what it shares. The adapter may give more, never less.
struct QueuePairOptions {
  std::uint32_t send_depth = 128;     ///< Requests that can be under way.
  std::uint32_t receive_depth = 128;  ///< Receives that can be posted; unused with a shared queue.
  std::uint32_t send_slices = 4;      ///< Slices of one request.
  std::uint32_t receive_slices = 1;
  std::uint32_t inline_bytes = 64;  ///< What `Flags::inlined` can carry.
  /// Without one, the queue pair has one of its own for sends and receives.
  std::optional<CompletionQueue> completions = {};
  std::optional<SharedReceiveQueue> shared_receives = {};

  /// Of connections: how long the peer may be silent, and how often that is repeated (IBA volume
  /// 1, 9.7.6.1.3), how often a receiver that has no receive posted is asked again (7: without
  /// end), READs and atomics under way.
  std::uint8_t ack_timeout = 14;
  std::uint8_t retry_count = 7;
  std::uint8_t receiver_not_ready_retries = 7;
  std::uint8_t reads_in_flight = 16;
};

/// How a request is carried out.
struct Flags {
  bool fenced = false;   ///< After all READs and atomics before it.
  bool inlined = false;  ///< Bytes are taken while posting: the memory is free again, and need not
                         ///< be registered.
  bool solicited = false;  ///< Wakes a receiver that waits for solicited events only.
};

/// 32 bits that go with a message, and come with its completion at the peer.
struct Immediate {
  std::uint32_t value = 0;
};

namespace detail {
struct Connection;
struct Order;
}  // namespace detail

/// Several requests that are posted with one call: made by `QueuePair::batch`, posted by `post`.
/// Nothing is posted if it is dropped before. The queue pair outlives it.
class Batch;

/// A connected queue pair (RC). `connect`, `Listener::accept` and `exchange.h` make them. Moved,
/// not copied. Its end ends the connection: requests that have not completed fail with
/// `Status::cancelled`, and the peer hears of it.
///
/// Every operation returns a token. Requests complete in the order of posting; the first that fails
/// puts the queue pair into the error state, and all behind it fail with `Status::flushed`.
class QueuePair {
 public:
  RequestToken send(Slice from VERBATIM_LIFETIME_BOUND, Flags flags = {});
  RequestToken send(Slice from VERBATIM_LIFETIME_BOUND, Immediate immediate, Flags flags = {});
  /// Gathers several slices into one message. Fails with `Status::out_of_range` if there are more
  /// than `send_slices`.
  RequestToken send(std::span<const Slice> from, Flags flags = {});

  /// Writes `from` to the beginning of `to`.
  RequestToken write(Slice from VERBATIM_LIFETIME_BOUND, RemoteSlice to, Flags flags = {});
  /// Also completes a receive of the peer's, which gets `immediate`. iWARP: RFC 7306 has it;
  /// Verbatim and siw lack it.
  RequestToken write(Slice from VERBATIM_LIFETIME_BOUND, RemoteSlice to, Immediate immediate,
                     Flags flags = {});
  RequestToken write(std::span<const Slice> from, RemoteSlice to, Flags flags = {});

  /// Reads the beginning of `from` into `into`, all of it.
  RequestToken read(Slice into VERBATIM_LIFETIME_BOUND, RemoteSlice from, Flags flags = {});
  RequestToken read(std::span<const Slice> into, RemoteSlice from, Flags flags = {});

  /// If the eight bytes at `cell` are `expected`, they become `desired`. `before` (eight bytes)
  /// gets what they were. `cell` must be aligned to eight bytes.
  RequestToken compare_and_swap(Slice before VERBATIM_LIFETIME_BOUND, RemoteSlice cell,
                                std::uint64_t expected, std::uint64_t desired, Flags flags = {});
  RequestToken fetch_and_add(Slice before VERBATIM_LIFETIME_BOUND, RemoteSlice cell,
                             std::uint64_t addend, Flags flags = {});

  /// Posts a receive: its token completes with a SEND of the peer's, or a write with immediate. Not
  /// with a shared receive queue.
  RequestToken receive(Slice into VERBATIM_LIFETIME_BOUND);
  RequestToken receive(std::span<const Slice> into);

  /// Without a token, for streams of requests: nobody learns how one ended, but for the first
  /// failure, which each later request tells. Fails at once where posting does.
  Result<void> post_send(Slice from, Flags flags = {});
  Result<void> post_write(Slice from, RemoteSlice to, Flags flags = {});

  Batch batch();

  /// Waits until all requests posted so far have completed. Fails with the first failure.
  Result<void> drain(std::chrono::nanoseconds timeout = std::chrono::nanoseconds{-1});

  std::uint32_t number() const noexcept;
  std::uint32_t peer_number() const noexcept;
  /// What the peer gave to `connect` or `accept`. By rdma_cm over RoCE and InfiniBand, zeros follow
  /// it: 56 bytes come with a connect, 196 with an accept (IBA volume 1, 12.6). Else empty without.
  std::span<const std::byte> peer_data() const noexcept;
  /// False once the peer has ended the connection, or a request has failed: then all requests have
  /// ended, or do so at the next poll.
  bool is_connected() const noexcept;
  /// Requests posted and not known to have completed.
  std::uint32_t in_flight() const noexcept;
  CompletionQueue completions() const;
  const ProtectionDomain& domain() const noexcept;
  ibv_qp* native() const noexcept;

  /// Ends the connection, and every request: with `Status::flushed`, or, where the adapter does not
  /// tell within 10 ms, `cancelled`.
  /// Called by the destructor.
  void disconnect();

  QueuePair(QueuePair&&) noexcept;
  QueuePair& operator=(QueuePair&&) noexcept;
  ~QueuePair();

 private:
  friend class Batch;
  friend class ConnectionMaker;
  RequestToken order(const detail::Order& order, std::span<const Slice> local);
  explicit QueuePair(std::unique_ptr<detail::Connection> connection);
  std::unique_ptr<detail::Connection> connection_;
};

class Batch {
 public:
  Batch& send(Slice from, Flags flags = {});
  Batch& write(Slice from, RemoteSlice to, Flags flags = {});
  Batch& write(Slice from, RemoteSlice to, Immediate immediate, Flags flags = {});
  Batch& read(Slice into, RemoteSlice from, Flags flags = {});

  /// Posts all with one call of the adapter, and empties the batch. The token completes with the
  /// last request; where one before it fails, the token fails with `Status::flushed`, and
  /// `QueuePair::drain` tells the first failure.
  RequestToken post();

  std::size_t size() const noexcept;
  /// How many requests of the last `post` the adapter has taken: all, none, or, where it refuses
  /// one (the token says so at once), those before it.
  std::size_t taken() const noexcept;

  Batch(Batch&&) noexcept;
  Batch& operator=(Batch&&) noexcept;
  ~Batch();

 private:
  friend class QueuePair;
  struct State;
  explicit Batch(detail::Connection& connection);
  std::unique_ptr<State> state_;
};

}  // namespace verbatim
