#include "api/queue.h"
#include "verbatim/completion.h"

namespace verbatim::inline v1 {

Result<CompletionQueue> CompletionQueue::make(const Context& context,
                                              const CompletionQueueOptions& options) {
  auto made = detail::Queue::make(context, options);
  if (!made) return made.error();
  return CompletionQueue(std::move(*made));
}

int CompletionQueue::poll() { return queue_->poll(); }
int CompletionQueue::wait(std::chrono::nanoseconds timeout) { return queue_->wait(timeout); }
int CompletionQueue::event_descriptor() const noexcept { return queue_->events; }
bool CompletionQueue::arm() { return queue_->arm(); }
ibv_cq* CompletionQueue::native() const noexcept { return queue_->cq; }

}  // namespace verbatim::inline v1
