#include <algorithm>
#include <utility>

#include "api/party.h"
#include "api/shared_receives.h"
#include "base/always_inline.h"

/// From a completion to the token that waits for it. Each function is a step of `Queue::collect`.
namespace verbatim::inline v1::detail {

VERBATIM_ALWAYS_INLINE void Queue::finish(Pending& pending, Status status) {
  // Its slot is not used again.
  pending.link_ = nullptr;
  if (pending.resume_ != nullptr) {
    pending.link_ = ready_end_;
    pending.next_ = nullptr;
    *ready_end_ = &pending;
    ready_end_ = &pending.next_;
  }
  // The last step: another thread may destroy the token afterwards.
  pending.set_status(status);
}

/// The next request of a send ring has succeeded.
VERBATIM_ALWAYS_INLINE void Queue::complete_next(Ring& ring, const ibv_wc& entry) {
  const std::uint64_t sequence = ring.completed() + 1;
  if (Pending* const pending = ring.slot(sequence).pending) {
    pending->bytes_ = entry.byte_len;
    finish(*pending, Status::success);
  }
  ring.set_completed(sequence);
}

VERBATIM_ALWAYS_INLINE void Queue::complete(Ring& ring, std::uint64_t sequence, const ibv_wc& entry,
                                            std::uint32_t bytes) {
  if (sequence - ring.completed() != 1) [[unlikely]]
    return complete_with_earlier(ring, sequence, entry, bytes);
  if (Pending* const pending = ring.slot(sequence).pending) {
    pending->set_details(entry, bytes);
    finish(*pending, entry.status == IBV_WC_SUCCESS ? Status::success : status_of(entry.status));
  }
  ring.set_completed(sequence);
}

void Queue::complete_with_earlier(Ring& ring, std::uint64_t sequence, const ibv_wc& entry,
                                  std::uint32_t bytes) {
  // Otherwise it belongs to an earlier queue pair with this number.
  if (sequence - ring.completed() - 1 >= ring.in_flight()) return;
  for (std::uint64_t ended = ring.completed() + 1; ended < sequence; ++ended) {
    if (Pending* const pending = ring.slot(ended).pending) {
      pending->bytes_ = 0;
      finish(*pending, Status::success);
    }
    ring.set_completed(ended);
  }
  complete(ring, sequence, entry, bytes);
}

VERBATIM_ALWAYS_INLINE void Party::on_completion(Queue& at, const ibv_wc& entry) {
  const std::uint64_t sequence = entry.wr_id >> 2;
  if (static_cast<Side>(entry.wr_id & 3) == Side::receive) {
    const std::uint32_t header = std::min(header_bytes, entry.byte_len);
    return at.complete(receives, sequence, entry, entry.byte_len - header);
  }
  if (entry.status != IBV_WC_SUCCESS && first_failure.status == Status::success) [[unlikely]]
    keep_first_failure(sequence, entry);
  at.complete(sends, sequence, entry, entry.byte_len);
}

VERBATIM_ALWAYS_INLINE void Queue::dispatch(const ibv_wc& entry) {
  if (static_cast<Side>(entry.wr_id & 3) == Side::shared_receive) {
    SharedReceives* const receives = shared_[entry.wr_id >> 34];
    if (receives != nullptr) receives->on_completion(entry);
    return;
  }
  if (entry.qp_num != last_number_) [[unlikely]] {
    const auto found = parties_.find(entry.qp_num);
    // Its queue pair is destroyed, and `cancel` has completed the tokens.
    if (found == parties_.end()) return;
    last_number_ = entry.qp_num;
    last_ = found->second;
  }
  last_->on_completion(*this, entry);
}

int Queue::collect() {
  ibv_wc batch[kBatch];
  const int count = ibv_poll_cq(cq, kBatch, batch);
  for (int i = 0; i < count; ++i) dispatch(batch[i]);
  if (count <= 0) return 0;
  has_news_ = true;
  return count;
}

int Queue::poll() {
  int count = 0;
  {
    const Guard guard(*this);
    count = collect();
    if (ready_ == nullptr && timers_ == nullptr) return count;
  }
  const int called = call_ready();
  return count != 0 ? count : called;
}

/// Takes one completion, for a token that waits for a single request. The usual case, a send that
/// succeeded and is next in the same queue pair as before, is the fast path.
VERBATIM_ALWAYS_INLINE void Queue::poll_one() {
  ibv_wc entry;
  if (shared_by_threads) return poll_one_locked();
  if (ibv_poll_cq(cq, 1, &entry) == 1) {
    has_news_ = true;
    if (entry.qp_num == last_number_ && entry.wr_id == last_->next_work_id() &&
        entry.status == IBV_WC_SUCCESS) [[likely]] {
      complete_next(last_->sends, entry);
    } else {
      dispatch_any(entry);
    }
  }
  if (ready_ != nullptr) call_ready();
}

void Queue::poll_one_locked() {
  {
    const Guard guard(*this);
    ibv_wc entry;
    if (ibv_poll_cq(cq, 1, &entry) == 1) {
      has_news_ = true;
      dispatch(entry);
    }
    if (ready_ == nullptr) return;
  }
  call_ready();
}

void Queue::dispatch_any(const ibv_wc& entry) { dispatch(entry); }

int Queue::call_ready() {
  // A callback may destroy the last queue pair of this queue.
  const std::shared_ptr<Queue> alive = shared_from_this();
  const Guard guard(*this);
  const int called = run_ready();
  return called + (timers_ == nullptr ? 0 : call_overdue());
}

int Queue::run_ready() {
  // A callback may poll and complete others: each is removed from the list before its call.
  int called = 0;
  for (; ready_ != nullptr; ++called) {
    Pending& pending = *ready_;
    pending.unlink();
    const auto resume = std::exchange(pending.resume_, nullptr);
    resume(pending);
  }
  return called;
}

void Queue::cancel(Ring& ring, std::uint32_t number) {
  for (std::uint64_t sequence = ring.completed() + 1; sequence <= ring.posted(); ++sequence) {
    Pending* const pending = ring.slot(sequence).pending;
    if (pending == nullptr) continue;
    pending->queue_pair_ = number;
    pending->code_ = 0;
    pending->vendor_error_ = 0;
    pending->detail_ = "the queue pair was destroyed while the request was under way";
    finish(*pending, Status::cancelled);
  }
  ring.set_completed(ring.posted());
}

void Party::keep_first_failure(std::uint64_t sequence, const ibv_wc& entry) {
  first_failure = {.operation = sends.slot(sequence).operation,
                   .status = status_of(entry.status),
                   .code = entry.status,
                   .queue_pair = entry.qp_num,
                   .vendor_error = entry.vendor_err};
}

}  // namespace verbatim::inline v1::detail

namespace verbatim::inline v1 {

bool RequestToken::poll() {
  if (!done()) queue_->poll();
  return done();
}

Result<Completion> RequestToken::wait() {
  if (!done()) queue_->poll_one();
  if (!done()) [[unlikely]]
    queue_->wait_for(*this, std::chrono::nanoseconds{-1});
  return result();
}

Result<Completion> RequestToken::wait_for(std::chrono::nanoseconds timeout) {
  if (!done()) queue_->wait_for(*this, std::max(timeout, timeout.zero()));
  return result();
}

}  // namespace verbatim::inline v1
