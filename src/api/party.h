#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include <infiniband/verbs.h>

#include "api/queue.h"
#include "verbatim/queue_pair.h"

namespace verbatim::detail {

/// What a request wants beyond its local bytes.
struct Order {
  Operation operation = Operation::none;
  RemoteSlice remote;
  Flags flags;
  std::uint32_t immediate = 0;  // Host byte order.
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;
  ibv_ah* address = nullptr;  // UD
  std::uint32_t remote_queue_pair = 0;
  std::uint32_t remote_key = 0;  // Q_Key
};

struct BatchedRequest {
  Order order;
  Slice local;
};

/// A queue pair of any service: its requests, from posting to their end.
struct Party {
  Party(ProtectionDomain of, const QueuePairOptions& options);
  ~Party();
  Party(const Party&) = delete;
  Party& operator=(const Party&) = delete;

  /// The queues, made where the options have none. Before the queue pair itself is made.
  Result<void> make_queues(const QueuePairOptions& options);
  ibv_qp_init_attr attributes(const QueuePairOptions& options, ibv_qp_type type) const;
  /// Takes over a queue pair that was made with `attributes`.
  Result<void> adopt(ibv_qp* made, const ibv_qp_cap& given);
  /// Takes what the adapter flushes of a queue pair in the error state.
  void settle();
  /// Ends what still waits, after the queue pair was destroyed.
  void abandon();

  /// Posts one request. Why it could not be posted is told to `pending`, or, if that is null, to
  /// `failed`.
  void post(Pending* pending, Failure* failed, const Order& order, std::span<const Slice> local);
  /// The same of one slice, in the caller (`posting.h`).
  RequestToken post(const Order& order, const Slice& local);
  Result<void> post_without_token(const Order& order, const Slice& local);
  /// Posts all with one call; `pending` ends with the last, or with the failure of the first that
  /// fails. Returns how many the adapter has taken.
  std::size_t post_batch(Pending& pending, std::span<const BatchedRequest> requests);
  void post_receive(Pending& pending, std::span<const Slice> into);
  /// Of the send that completes next.
  std::uint64_t next_work_id() const { return work_id(Side::send, sends.completed() + 1); }
  void on_completion(Queue& queue, const ibv_wc& entry);
  Result<void> drain(std::chrono::nanoseconds timeout);

  const ProtectionDomain domain;
  ibv_qp* queue_pair = nullptr;
  std::uint32_t number = 0;      // Also after its end.
  std::shared_ptr<Queue> queue;  // Of sends; of receives, too, without a shared queue.
  std::shared_ptr<SharedReceives> shared;
  Ring sends;
  Ring receives;
  std::uint32_t max_slices = 1;
  std::uint32_t max_receive_slices = 1;
  std::uint32_t max_inline = 0;
  std::uint32_t header_bytes = 0;  // Of received bytes, what stands before the message (UD).
  Failure first_failure;           // Of the sends.

 private:
  const char* fault_of_order(const Order& order, std::span<const Slice> local) const;
  bool is_plain(const Order& order, const Slice& local) const;
  /// By value: what is handed on by reference cannot be left out where it is made.
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

}  // namespace verbatim::detail
