#include "api/queue.h"

#include <bit>
#include <cerrno>

#include <sys/epoll.h>
#include <unistd.h>

#include "api/party.h"

namespace verbatim::inline v1::detail {
Ring::Ring(std::uint32_t of)
    : depth(of), slots_(std::bit_ceil(of < 2 ? 2u : of)), mask_(slots_.size() - 1) {}

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
  queue->events = epoll_create1(EPOLL_CLOEXEC);
  epoll_event of_channel{.events = EPOLLIN, .data = {.ptr = nullptr}};
  if (queue->events < 0 ||
      epoll_ctl(queue->events, EPOLL_CTL_ADD, queue->channel->fd, &of_channel) != 0) {
    return refused(Call::make_completion_queue, errno, "no descriptor to wait at");
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
  if (events >= 0) close(events);
  if (channel != nullptr) ibv_destroy_comp_channel(channel);
}

Result<void> Queue::reserve(Call call, std::uint32_t queue_pair, std::uint32_t count) {
  if (count > entries - reserved_) {
    return Failure{.call = call,
                   .status = Status::queue_full,
                   .queue_pair = queue_pair,
                   .detail =
                       "the completion queue has fewer entries than its queue pairs and "
                       "shared receive queues have requests: make it larger "
                       "(CompletionQueueOptions::entries)"};
  }
  reserved_ += count;
  return {};
}

Result<void> Queue::attach(std::uint32_t number, Party& party, std::uint32_t count) {
  const Guard guard(*this);
  if (auto reserved = reserve(Call::make_queue_pair, number, count); !reserved) return reserved;
  parties_[number] = &party;
  last_number_ = kNobody;
  return {};
}

Result<std::uint32_t> Queue::attach(SharedReceives& receives, std::uint32_t depth) {
  const Guard guard(*this);
  if (auto reserved = reserve(Call::make_receive_queue, 0, depth); !reserved)
    return reserved.error();
  shared_.push_back(&receives);
  return static_cast<std::uint32_t>(shared_.size() - 1);
}

void Queue::detach_shared(std::uint32_t number, std::uint32_t depth) {
  const Guard guard(*this);
  reserved_ -= depth;
  shared_[number] = nullptr;
}

void Queue::detach(std::uint32_t number, std::uint32_t count) {
  const Guard guard(*this);
  reserved_ -= count;
  parties_.erase(number);
  last_number_ = kNobody;
}

}  // namespace verbatim::inline v1::detail
