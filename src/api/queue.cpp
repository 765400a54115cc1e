#include "api/queue.h"

#include <bit>
#include <cerrno>
#include <ctime>

#include <poll.h>

#include "api/party.h"

namespace verbatim::detail {

Ring::Ring(std::uint32_t of) : depth(of), slots_(std::bit_ceil(of < 2 ? 2u : of)) {}

void Ring::push(Pending* pending, Operation operation) {
  const std::uint64_t sequence = posted() + 1;
  Slot& place = slot(sequence);
  place = {pending, operation};
  posted_.store(sequence, std::memory_order_relaxed);
}

Result<std::shared_ptr<Queue>> Queue::make(const Context& context,
                                           const CompletionQueueOptions& options) {
  auto queue = std::make_shared<Queue>();
  queue->device = context.handle();
  queue->shared_by_threads = options.shared_by_threads;
  queue->spin = options.spin;
  queue->channel = ibv_create_comp_channel(context.native());
  if (queue->channel == nullptr) {
    return refused(Call::make_completion_queue, errno, "no completion channel");
  }
  queue->cq = ibv_create_cq(context.native(), static_cast<int>(options.entries), nullptr,
                            queue->channel, 0);
  if (queue->cq == nullptr) {
    return refused(
        Call::make_completion_queue, errno,
        "more entries than the device has (ibv_devinfo -v: max_cqe), or too many queues");
  }
  queue->entries = static_cast<std::uint32_t>(queue->cq->cqe);
  return queue;
}

Queue::~Queue() {
  run_ready();
  if (unacknowledged_events_ != 0) ibv_ack_cq_events(cq, unacknowledged_events_);
  if (cq != nullptr) ibv_destroy_cq(cq);
  if (channel != nullptr) ibv_destroy_comp_channel(channel);
}

int Queue::poll() {
  const Guard guard(*this);
  const int count = poll_once();
  if (ready_ != nullptr) run_ready();
  return count;
}

int Queue::poll_once() {
  ibv_wc batch[kBatch];
  const int count = ibv_poll_cq(cq, kBatch, batch);
  for (int i = 0; i < count; ++i) dispatch(batch[i]);
  return count < 0 ? 0 : count;
}

void Queue::dispatch(const ibv_wc& entry) {
  if (entry.qp_num != last_number_ || last_ == nullptr) {
    const auto found = parties_.find(entry.qp_num);
    // Of a queue pair that was destroyed: `cancel` has told whoever waited.
    if (found == parties_.end()) return;
    last_number_ = entry.qp_num;
    last_ = found->second;
  }
  last_->on_completion(*this, entry);
}

void Queue::complete(Ring& ring, std::uint64_t sequence, const ibv_wc& entry) {
  for (std::uint64_t ended = ring.completed() + 1; ended < sequence; ++ended) {
    if (Pending* const pending = ring.slot(ended).pending) finish(*pending, Status::success);
  }
  Ring::Slot& slot = ring.slot(sequence);
  if (Pending* const pending = slot.pending) {
    pending->bytes_ = entry.byte_len;
    pending->has_immediate_ = (entry.wc_flags & IBV_WC_WITH_IMM) != 0;
    pending->immediate_ = entry.imm_data;
    pending->source_queue_pair_ = entry.src_qp;
    pending->code_ = entry.status;
    pending->vendor_error_ = entry.vendor_err;
    finish(*pending, entry.status == IBV_WC_SUCCESS ? Status::success : status_of(entry.status));
  }
  ring.set_completed(sequence);
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

void Queue::finish(Pending& pending, Status status) {
  *pending.link_ = nullptr;
  if (pending.resume_ != nullptr) {
    pending.link_ = ready_end_;
    pending.next_ = nullptr;
    *ready_end_ = &pending;
    ready_end_ = &pending.next_;
    pending.set_status(status);
    return;
  }
  // Its owner may end it as soon as the status says that it has completed.
  pending.link_ = nullptr;
  pending.set_status(status);
}

void Queue::run_ready() {
  // A callback may poll, and so end others: each is taken out before it is called.
  while (ready_ != nullptr) {
    Pending& pending = *ready_;
    pending.unlink();
    const auto resume = std::exchange(pending.resume_, nullptr);
    resume(pending);
  }
}

bool Queue::arm() {
  const Guard guard(*this);
  return ibv_req_notify_cq(cq, 0) == 0;
}

bool Queue::sleep(std::chrono::nanoseconds timeout) {
  const auto nanoseconds = timeout.count();
  const timespec limit{nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000};
  pollfd ready{.fd = channel->fd, .events = POLLIN, .revents = 0};
  if (ppoll(&ready, 1, nanoseconds < 0 ? nullptr : &limit, nullptr) <= 0) return false;
  const Guard guard(*this);
  // Another thread may have taken the event: then this one would wait for the next.
  if (::poll(&ready, 1, 0) != 1) return true;
  ibv_cq* of = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(channel, &of, &context) == 0 && ++unacknowledged_events_ == 1024) {
    ibv_ack_cq_events(cq, std::exchange(unacknowledged_events_, 0));
  }
  return true;
}

int Queue::wait(std::chrono::nanoseconds timeout) {
  using Clock = std::chrono::steady_clock;
  if (const int count = poll(); count != 0 || timeout == timeout.zero()) return count;
  const auto begin = Clock::now();
  auto now = begin;
  while (now - begin < spin && (timeout < timeout.zero() || now - begin < timeout)) {
    for (int i = 0; i < 64; ++i) {
      if (const int count = poll(); count != 0) return count;
    }
    now = Clock::now();
  }
  while (timeout < timeout.zero() || now - begin < timeout) {
    arm();
    if (const int count = poll(); count != 0) return count;
    sleep(timeout < timeout.zero() ? timeout : timeout - (now - begin));
    if (const int count = poll(); count != 0) return count;
    now = Clock::now();
  }
  return 0;
}

Result<void> Queue::attach(std::uint32_t number, Party& party, std::uint32_t count) {
  const Guard guard(*this);
  if (count > entries - reserved_) {
    return Failure{
        .call = Call::make_queue_pair,
        .status = Status::queue_full,
        .queue_pair = number,
        .detail =
            "the completion queue has fewer entries than its queue pairs have requests: make it "
            "larger (CompletionQueueOptions::entries)"};
  }
  reserved_ += count;
  parties_[number] = &party;
  return {};
}

void Queue::detach(std::uint32_t number, std::uint32_t count) {
  const Guard guard(*this);
  reserved_ -= count;
  parties_.erase(number);
  last_ = nullptr;
}

}  // namespace verbatim::detail
