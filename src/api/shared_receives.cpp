#include "api/shared_receives.h"

#include <algorithm>
#include <cerrno>

#include <arpa/inet.h>

namespace verbatim::inline v1 {
namespace detail {

Result<std::shared_ptr<SharedReceives>> SharedReceives::make(
    const ProtectionDomain& domain, const CompletionQueue& completions,
    const SharedReceiveQueueOptions& options) {
  auto receives = std::make_shared<SharedReceives>();
  ibv_srq_init_attr wanted{.srq_context = nullptr,
                           .attr = {.max_wr = options.depth, .max_sge = 1, .srq_limit = 0}};
  receives->srq = ibv_create_srq(domain.native(), &wanted);
  if (receives->srq == nullptr) {
    return refused(Call::make_receive_queue, errno,
                   "deeper than the device allows (ibv_devinfo -v: max_srq_wr)");
  }
  const auto number = completions.handle()->attach(*receives, options.depth);
  if (!number) return number.error();
  receives->number_ = *number;
  receives->queue = completions.handle();
  receives->domain = domain.handle();
  receives->receives_ = std::vector<Receive>(options.depth);
  for (std::uint32_t i = options.depth; i-- > 0;) receives->free_.push_back(i);
  receives->domain->add(*receives);
  return receives;
}

SharedReceives::~SharedReceives() {
  if (queue) queue->detach_shared(number_, static_cast<std::uint32_t>(receives_.size()));
  if (srq != nullptr) ibv_destroy_srq(srq);
  if (domain) domain->remove(*this);
}

Result<void> SharedReceives::post(const Slice& memory, std::uint64_t tag) {
  const Queue::Guard guard(*queue);
  const auto refuse = [](Status status, int code, const char* detail) {
    return Failure{.call = Call::post,
                   .operation = Operation::receive,
                   .status = status,
                   .code = code,
                   .detail = detail};
  };
  if (!memory.is_valid)
    return refuse(Status::out_of_range, 0, "the slice does not lie within its memory");
  if (free_.empty())
    return refuse(Status::queue_full, ENOMEM, "as many receives are posted as the queue holds");
  const std::uint32_t index = free_.back();
  Receive& receive = receives_[index];
  receive.memory = memory;
  receive.tag = tag;
  receive.sequence.store(posted() + 1, std::memory_order_release);
  ibv_sge segment{reinterpret_cast<std::uintptr_t>(memory.data), memory.size, memory.local_key};
  ibv_recv_wr request{
      .wr_id = shared_work_id(number_, index), .next = nullptr, .sg_list = &segment, .num_sge = 1};
  ibv_recv_wr* bad = nullptr;
  if (const int code = ibv_post_srq_recv(srq, &request, &bad); code != 0) {
    receive.sequence.store(0, std::memory_order_release);
    return refuse(Status::refused, code, "the shared receive queue takes no more");
  }
  free_.pop_back();
  posted_.store(posted() + 1, std::memory_order_relaxed);
  return {};
}

void SharedReceives::on_completion(const ibv_wc& entry) {
  // The conversion drops the upper bits.
  const auto index = static_cast<std::uint32_t>(entry.wr_id >> 2);
  Receive& receive = receives_[index];
  if (entry.status == IBV_WC_SUCCESS) {
    const bool has_immediate = (entry.wc_flags & IBV_WC_WITH_IMM) != 0;
    arrived_.push_back(
        Message{.memory = receive.memory,
                .tag = receive.tag,
                .completion = {.operation = Operation::receive,
                               .bytes = entry.byte_len,
                               .immediate = has_immediate ? std::optional(ntohl(entry.imm_data))
                                                          : std::nullopt,
                               .queue_pair = entry.qp_num,
                               .source_queue_pair = entry.src_qp}});
  } else {
    arrived_.push_back(Failure{.operation = Operation::receive,
                               .status = status_of(entry.status),
                               .code = entry.status,
                               .queue_pair = entry.qp_num,
                               .vendor_error = entry.vendor_err});
  }
  receive.sequence.store(0, std::memory_order_release);
  free_.push_back(index);
}

std::uint64_t SharedReceives::ended() const {
  std::uint64_t oldest = posted() + 1;
  for (const Receive& receive : receives_) {
    const std::uint64_t sequence = receive.sequence.load(std::memory_order_acquire);
    if (sequence != 0) oldest = std::min(oldest, sequence);
  }
  return oldest - 1;
}

std::optional<Result<Message>> SharedReceives::next() {
  const Queue::Guard guard(*queue);
  if (arrived_.empty()) queue->poll();
  if (arrived_.empty()) return std::nullopt;
  Result<Message> message = arrived_.front();
  arrived_.pop_front();
  return message;
}

}  // namespace detail

Result<SharedReceiveQueue> SharedReceiveQueue::make(const ProtectionDomain& domain,
                                                    const CompletionQueue& completions,
                                                    const SharedReceiveQueueOptions& options) {
  auto made = detail::SharedReceives::make(domain, completions, options);
  if (!made) return made.error();
  return SharedReceiveQueue(std::move(*made));
}

Result<void> SharedReceiveQueue::post(Slice memory, std::uint64_t tag) {
  return receives_->post(memory, tag);
}

std::optional<Result<Message>> SharedReceiveQueue::next() { return receives_->next(); }

Result<Message> SharedReceiveQueue::wait(std::chrono::nanoseconds timeout) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  for (;;) {
    if (auto message = next()) return *message;
    auto left = timeout < timeout.zero() ? timeout : timeout - (Clock::now() - begin);
    if (timeout >= timeout.zero() && left <= left.zero()) {
      return Failure{
          .call = Call::wait, .operation = Operation::receive, .status = Status::timed_out};
    }
    receives_->queue->wait(left);
  }
}

ibv_srq* SharedReceiveQueue::native() const noexcept { return receives_->srq; }

}  // namespace verbatim::inline v1
