#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "adapter/queues/async_event.h"
#include "adapter/queues/receive_queue.h"
#include "adapter/queues/tag_matching.h"
#include "arena/xrc_queue.h"
#include "base/error.h"
#include "base/types.h"

/// Shared receive queues (IBA volume 1, section 10.2.9 and annex A14).
namespace verbatim::adapter {

class CompletionQueue;

/// With the values of `enum ibv_srq_type`.
enum class SharedReceiveType : std::uint8_t { basic = 0, xrc = 1, tag_matching = 2 };

struct SharedReceiveOptions {
  SharedReceiveType type = SharedReceiveType::basic;
  PdNumber pd{};
  std::uint32_t requests = 0;
  std::uint32_t segments = 0;
  std::uint32_t limit = 0;
  CompletionQueue* cq = nullptr;     // XRC, tag matching: where receives complete.
  XrcDomain xrc_domain{};            // XRC.
  std::uint32_t tags = 0;            // Tag matching: length of its list,
  std::uint32_t tag_operations = 0;  // and outstanding operations on it.
  AsyncEvents* events = nullptr;
  void* owner = nullptr;  // The drop-in's object, for asynchronous events.
};

/// The attributes of `modify`: `struct ibv_srq_attr` in our types.
struct SharedReceiveAttributes {
  std::optional<std::uint32_t> requests;
  std::optional<std::uint32_t> limit;
};

/// Receive requests that several queue pairs share. Thread-safe. A posted request stays until a
/// message takes it: no queue pair's error flushes it.
class SharedReceiveQueue {
 public:
  static Result<std::unique_ptr<SharedReceiveQueue>> create(Arena& arena, SrqNumber number,
                                                            const SharedReceiveOptions& options);
  SharedReceiveQueue(const SharedReceiveQueue&) = delete;
  SharedReceiveQueue& operator=(const SharedReceiveQueue&) = delete;

  SrqNumber number() const { return number_; }
  const SharedReceiveOptions& options() const { return options_; }
  std::uint32_t capacity() const { return queue_->capacity(); }
  std::uint32_t segments_max() const { return queue_->segments_max(); }
  std::uint32_t limit() const { return queue_->limit(); }
  std::uint32_t count() const { return queue_->count(); }

  int post_receive(std::uint64_t wr_id, std::span<const Segment> segments) {
    return queue_->post(wr_id, segments);
  }
  /// Takes the oldest request; raises IBV_EVENT_SRQ_LIMIT_REACHED if fewer than the limit are left.
  bool take(ReceiveRequest& out);
  /// For peers, and events on their behalf.
  Offset<ReceiveRing> ring() const { return queue_->ring(); }
  /// Raises IBV_EVENT_SRQ_LIMIT_REACHED if the limit was reached and the event is still due.
  void report_limit();
  /// XRC: handles notifications from peers.
  void on_notifications(std::uint32_t notifications);
  bool matches_tags() const { return tags_.has_value(); }
  /// Takes the receive for a message that `TaggedMessage::read` has read; sets in `message` how it
  /// was matched. A rendezvous that the adapter may not finish is left to the program.
  bool take(TaggedMessage& message, bool finishes_rendezvous, ReceiveRequest& out);
  /// `ibv_post_srq_ops`: returns 0 or an errno value (EINVAL, ENOMEM). For `add` returns the tag's
  /// handle.
  int post_tag_operation(const TagOperation& operation, std::uint32_t& handle);
  /// Changes all or nothing. A limit above the number of requests is reached at once. EINVAL.
  Result<void> modify(const SharedReceiveAttributes& wanted);

  // Queue pairs that take from it; EBUSY to destroy it meanwhile.
  std::atomic<std::uint32_t> users{0};

 private:
  SharedReceiveQueue(SrqNumber number, const SharedReceiveOptions& options,
                     std::unique_ptr<ReceiveQueue> queue)
      : number_(number), options_(options), queue_(std::move(queue)) {
    if (options.type == SharedReceiveType::tag_matching) tags_.emplace(options.tags);
  }
  void raise_limit_event();

  const SrqNumber number_;
  const SharedReceiveOptions options_;
  const std::unique_ptr<ReceiveQueue> queue_;
  std::optional<TagMatching> tags_;
};

}  // namespace verbatim::adapter
