#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include <infiniband/verbs.h>

#include "api/queue.h"
#include "verbatim/queue_pair.h"

namespace verbatim::inline v1::detail {

/// The parameters of a request beside its local bytes.
struct Order {
  Operation operation = Operation::none;
  RemoteSlice remote;
  Flags flags;
  std::uint32_t immediate = 0;  // Host byte order.
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;
  ibv_ah* address = nullptr;  // UD only.
  std::uint32_t remote_queue_pair = 0;
  std::uint32_t remote_key = 0;  // UD: the Q_Key.
};

struct BatchedRequest {
  Order order;
  Slice local;
};

/// A queue pair of any service: its requests, from posting to completion.
struct Party {
  Party(ProtectionDomain of, const QueuePairOptions& options);
  ~Party();
  Party(const Party&) = delete;
  Party& operator=(const Party&) = delete;

  /// Creates the queues that the options do not give. Called before the queue pair is created.
  Result<void> make_queues(const QueuePairOptions& options);
  ibv_qp_init_attr attributes(const QueuePairOptions& options, ibv_qp_type type) const;
  /// Takes over a queue pair that was created with `attributes`.
  Result<void> adopt(ibv_qp* made, const ibv_qp_cap& given);
  /// Takes the completions that the adapter flushes in the error state.
  void settle();
  /// Cancels the requests that still wait, after the queue pair was destroyed.
  void abandon();

  /// Posts one request. A failure to post is reported to `pending`, or to `failed` if that is null.
  void post(Pending* pending, Failure* failed, const Order& order, std::span<const Slice> local);
  /// The same for one slice, inlined in the caller (`posting.h`).
  RequestToken post(const Order& order, const Slice& local);
  Result<void> post_without_token(const Order& order, const Slice& local);
  /// Posts all requests with one call. `pending` completes with the last one, or with the first
  /// failure. Returns the number of requests that the adapter accepted.
  std::size_t post_batch(Pending& pending, std::span<const BatchedRequest> requests);
  void post_receive(Pending& pending, std::span<const Slice> into);
  /// Returns the id of the send that completes next.
  std::uint64_t next_work_id() const { return work_id(Side::send, sends.completed() + 1); }
  void on_completion(Queue& queue, const ibv_wc& entry);
  Result<void> drain(std::chrono::nanoseconds timeout);

  const ProtectionDomain domain;
  ibv_qp* queue_pair = nullptr;
  std::uint32_t number = 0;      // Valid after the end, too.
  std::shared_ptr<Queue> queue;  // For sends; without a shared queue, also for receives.
  std::shared_ptr<SharedReceives> shared;
  Ring sends;
  Ring receives;
  std::uint32_t max_slices = 1;
  std::uint32_t max_receive_slices = 1;
  std::uint32_t max_inline = 0;
  std::uint32_t header_bytes = 0;  // Bytes before a received message (UD).
  Failure first_failure;           // Of sends.

 private:
  const char* fault_of_order(const Order& order, std::span<const Slice> local) const;
  bool is_plain(const Order& order, const Slice& local) const;
  /// By value, so that the compiler can omit arguments that it knows.
  void post_with_care(Pending* pending, Failure* failed, Order order, Slice local);
  void submit(Pending* pending, Failure* failed, const Order& order, std::span<const Slice> local);
  void take_back(Pending* pending, Failure* failed, Operation operation, int code);
  void keep_first_failure(std::uint64_t sequence, const ibv_wc& entry);
  void refuse(Pending* pending, Failure* failed, Operation operation, Status status, int code,
              const char* detail) const;
  bool has_room_after_poll(std::uint32_t count);
  bool wants_completion(std::uint64_t sequence) const;
  bool is_plain_ = false;  // A post needs no lock, and there is a queue pair.
  static void fill(ibv_send_wr& request, const Order& order, std::uint64_t sequence,
                   std::span<ibv_sge> segments, std::span<const Slice> local, bool signals);
};

}  // namespace verbatim::inline v1::detail
