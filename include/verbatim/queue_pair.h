#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>

#include <verbatim/memory.h>
#include <verbatim/receive_queue.h>
#include <verbatim/request.h>

namespace verbatim::inline v1 {

/// Sizes of a queue pair, and what it shares. The adapter may grant more, never less.
struct QueuePairOptions {
  std::uint32_t send_depth = 128;     ///< Requests that can be outstanding.
  std::uint32_t receive_depth = 128;  ///< Receives that can be posted; unused with a shared queue.
  std::uint32_t send_slices = 4;      ///< Slices of one request.
  std::uint32_t receive_slices = 1;
  std::uint32_t inline_bytes = 64;  ///< Bytes that `Flags::inlined` can send.
  /// Without one, the queue pair creates its own for sends and receives.
  std::optional<CompletionQueue> completions = {};
  std::optional<SharedReceiveQueue> shared_receives = {};

  /// Connected queue pairs: time-out of an acknowledgement, number of retries after it (IBA volume
  /// 1, 9.7.6.1.3), number of retries if the receiver has no receive posted (7: without limit),
  /// READs and atomics outstanding.
  std::uint8_t ack_timeout = 14;
  std::uint8_t retry_count = 7;
  std::uint8_t receiver_not_ready_retries = 7;
  std::uint8_t reads_in_flight = 16;
};

/// Options of a request.
struct Flags {
  bool fenced = false;   ///< After all earlier READs and atomics.
  bool inlined = false;  ///< The bytes are copied while posting: the memory may change at once, and
                         ///< need not be registered.
  bool solicited = false;  ///< Wakes a receiver that waits for solicited events only.
};

/// 32 bits that a message carries to the completion at the peer.
struct Immediate {
  std::uint32_t value = 0;
};

namespace detail {
struct Connection;
struct Order;
}  // namespace detail

/// Several requests that are posted with one call: created by `QueuePair::batch`, posted by `post`.
/// If it is destroyed before, nothing is posted. The queue pair must outlive it.
class Batch;

/// A connected queue pair (RC), created by `connect`, `Listener::accept` or `exchange.h`. It can be
/// moved, not copied. The destructor ends the connection: requests that have not completed fail
/// with `Status::cancelled`, and the peer is notified.
///
/// Every operation returns a token. Requests complete in the order of posting. The first one that
/// fails moves the queue pair to the error state, and all later ones fail with `Status::flushed`.
class QueuePair {
 public:
  RequestToken send(Slice from VERBATIM_LIFETIME_BOUND, Flags flags = {});
  RequestToken send(Slice from VERBATIM_LIFETIME_BOUND, Immediate immediate, Flags flags = {});
  /// Gathers several slices into one message. Fails with `Status::out_of_range` if there are more
  /// than `send_slices`.
  RequestToken send(std::span<const Slice> from, Flags flags = {});

  /// Writes `from` to the start of `to`.
  RequestToken write(Slice from VERBATIM_LIFETIME_BOUND, RemoteSlice to, Flags flags = {});
  /// Also completes a receive of the peer, which gets `immediate`. Over iWARP, RFC 7306 defines it,
  /// but Verbatim and siw do not support it.
  RequestToken write(Slice from VERBATIM_LIFETIME_BOUND, RemoteSlice to, Immediate immediate,
                     Flags flags = {});
  RequestToken write(std::span<const Slice> from, RemoteSlice to, Flags flags = {});

  /// Reads the start of `from` into all of `into`.
  RequestToken read(Slice into VERBATIM_LIFETIME_BOUND, RemoteSlice from, Flags flags = {});
  RequestToken read(std::span<const Slice> into, RemoteSlice from, Flags flags = {});

  /// If the eight bytes at `cell` equal `expected`, they become `desired`. `before` (eight bytes)
  /// gets their old value. `cell` must be aligned to eight bytes.
  RequestToken compare_and_swap(Slice before VERBATIM_LIFETIME_BOUND, RemoteSlice cell,
                                std::uint64_t expected, std::uint64_t desired, Flags flags = {});
  RequestToken fetch_and_add(Slice before VERBATIM_LIFETIME_BOUND, RemoteSlice cell,
                             std::uint64_t addend, Flags flags = {});

  /// Posts a receive: its token completes with a SEND of the peer, or a write with immediate. Not
  /// available with a shared receive queue.
  RequestToken receive(Slice into VERBATIM_LIFETIME_BOUND);
  RequestToken receive(std::span<const Slice> into);

  /// Without a token, for streams of requests: their results are not reported, except the first
  /// failure, which each later request reports. Fails at once if posting does.
  Result<void> post_send(Slice from, Flags flags = {});
  Result<void> post_write(Slice from, RemoteSlice to, Flags flags = {});

  Batch batch();

  /// Waits until all requests posted so far have completed. Fails with the first failure.
  Result<void> drain(std::chrono::nanoseconds timeout = std::chrono::nanoseconds{-1});

  std::uint32_t number() const noexcept;
  std::uint32_t peer_number() const noexcept;
  /// The data that the peer gave to `connect` or `accept`. With rdma_cm over RoCE and InfiniBand,
  /// zeros follow it: 56 bytes come with a connect, 196 with an accept (IBA volume 1, 12.6).
  /// Otherwise empty if the peer gave none.
  std::span<const std::byte> peer_data() const noexcept;
  /// Returns false after the peer has ended the connection, or a request has failed: then all
  /// requests have completed, or do so at the next poll.
  bool is_connected() const noexcept;
  /// Number of requests that are posted and not known to have completed.
  std::uint32_t in_flight() const noexcept;
  CompletionQueue completions() const;
  const ProtectionDomain& domain() const noexcept;
  ibv_qp* native() const noexcept;

  /// Ends the connection and every request: with `Status::flushed`, or with `cancelled` if the
  /// adapter does not report it within 10 ms. The destructor calls it.
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
  /// last request. If an earlier one fails, the token fails with `Status::flushed`, and
  /// `QueuePair::drain` returns the first failure.
  RequestToken post();

  std::size_t size() const noexcept;
  /// Number of requests of the last `post` that the adapter has accepted: all, none or, if it
  /// refused one (which the token reports at once), those before it.
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

}  // namespace verbatim::inline v1
