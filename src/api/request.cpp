#include "verbatim/request.h"

#include <algorithm>

#include <arpa/inet.h>

#include "api/queue.h"

namespace verbatim::inline v1 {
namespace detail {

void Pending::leave_slot() noexcept {
  const Queue::Guard guard(*queue_);
  // Another thread's poll may have completed it meanwhile.
  if (link_ != nullptr) unlink();
}

void Pending::unlink() noexcept {
  if (next_ != nullptr) next_->link_ = link_;
  if (queue_->ready_end_ == &next_) queue_->ready_end_ = link_;
  *link_ = next_;
  link_ = nullptr;
  next_ = nullptr;
}

void Pending::take(Pending& other) noexcept {
  if (other.done() && other.link_ == nullptr) return copy(other);
  const Queue::Guard guard(*other.queue_);
  copy(other);
  if (link_ == nullptr) return;
  *link_ = this;
  if (next_ != nullptr) next_->link_ = &next_;
  if (queue_->ready_end_ == &other.next_) queue_->ready_end_ = &next_;
}

void Pending::copy(Pending& other) noexcept {
  queue_ = other.queue_;
  link_ = std::exchange(other.link_, nullptr);
  next_ = std::exchange(other.next_, nullptr);
  resume_ = std::exchange(other.resume_, nullptr);
  continuation_ = other.continuation_;
  operation_ = other.operation_;
  has_immediate_ = other.has_immediate_;
  code_ = other.code_;
  queue_pair_ = other.queue_pair_;
  bytes_ = other.bytes_;
  immediate_ = other.immediate_;
  source_queue_pair_ = other.source_queue_pair_;
  vendor_error_ = other.vendor_error_;
  detail_ = other.detail_;
  status_ = std::exchange(other.status_, Status::cancelled);
}

bool Pending::call_when_done(Resume resume, void* continuation, Timer* timer,
                             std::chrono::nanoseconds timeout) noexcept {
  if (done()) return false;
  const Queue::Guard guard(*queue_);
  if (done()) return false;
  resume_ = resume;
  continuation_ = continuation;
  if (timer != nullptr) queue_->start(*timer, *this, timeout);
  return true;
}

void Timer::unlink() noexcept {
  const Queue::Guard guard(*pending_->queue_);
  if (link_ == nullptr) return;
  if (next_ != nullptr) next_->link_ = link_;
  *link_ = next_;
  link_ = nullptr;
}

void Pending::fail(const Failure& failure) noexcept {
  forget();
  operation_ = failure.operation;
  queue_pair_ = failure.queue_pair;
  code_ = failure.code;
  vendor_error_ = failure.vendor_error;
  detail_ = failure.detail;
  set_status(failure.status);
}

Result<Completion> Pending::result() const {
  if (status() == Status::success) {
    const bool received = operation_ == Operation::receive;
    return Completion{
        .operation = operation_,
        // For SEND and WRITE, adapters leave it undefined.
        .bytes = operation_ >= Operation::read ? bytes_ : 0,
        .immediate = received && has_immediate_ ? std::optional(ntohl(immediate_)) : std::nullopt,
        .queue_pair = queue_pair_,
        .source_queue_pair = received ? source_queue_pair_ : 0,
    };
  }
  if (!done()) {
    return Failure{.call = Call::wait,
                   .operation = operation_,
                   .status = Status::timed_out,
                   .queue_pair = queue_pair_,
                   .detail = "the request has not completed"};
  }
  if (operation_ == Operation::none && status() == Status::cancelled) {
    return Failure{
        .call = Call::wait, .status = Status::cancelled, .detail = "the token is of no request"};
  }
  const bool was_posted = status() >= Status::local_length || status() == Status::cancelled;
  return Failure{.call = was_posted ? Call::none : Call::post,
                 .operation = operation_,
                 .status = status(),
                 .code = code_,
                 .queue_pair = queue_pair_,
                 .vendor_error = vendor_error_,
                 .detail = detail_};
}

}  // namespace detail

namespace {

/// A token that has a callback and no owner.
class Detached : public RequestToken {
 public:
  Detached(RequestToken&& token, std::function<void(const Result<Completion>&)> callback)
      : RequestToken(std::move(token)), callback_(std::move(callback)) {}
  void start() {
    const auto end = [](Pending& pending) { static_cast<Detached&>(pending).call(); };
    if (!call_when_done(end, nullptr)) call();
  }

 private:
  void call() {
    const std::unique_ptr<Detached> self(this);
    callback_(result());
  }
  std::function<void(const Result<Completion>&)> callback_;
};

}  // namespace

void RequestToken::then(std::function<void(const Result<Completion>&)> callback) && {
  (new Detached(std::move(*this), std::move(callback)))->start();
}

}  // namespace verbatim::inline v1
