// READs, WRITEs and atomic operations that come before messages.
#include <algorithm>
#include <utility>

#include "ulp/rds/connection.h"

namespace verbatim::ulp::rds {

/// Returns false if the message has to wait: for room, or for an operation that fences it. An
/// atomic operation comes after all of `work`.
bool Connection::begin_operations(WorkList& work, Outgoing& message,
                                  std::optional<Atomic>& atomic) {
  for (Operation& one : message.operations) {
    if (one.state != Operation::State::waiting) continue;
    if (work.full()) return false;
    one.state = Operation::State::posted;
    one.work = ++posted_;
    const auto tag = static_cast<std::uint32_t>(posted_);
    if (one.kind == Operation::Kind::write) {
      work.push(Write{.from = one.local, .to = one.remote, .done = Tag{tag}});
    } else if (one.kind == Operation::Kind::read) {
      work.push(Read{.into = one.local, .from = one.remote, .done = Tag{tag}});
    } else {
      atomic = {.compares = one.kind == Operation::Kind::compare_and_swap,
                .value = one.value,
                .compare = one.compare,
                .into = one.local.front(),
                .remote = one.remote,
                .done = tag};
      return false;
    }
  }
  return std::ranges::none_of(message.operations,
                              [](const Operation& one) { return one.is_fenced && is_out(one); });
}

void Connection::end(Outgoing& message, Operation& operation, OperationStatus status) {
  if (status != OperationStatus::success) message.has_failed = true;
  operation.state = Operation::State::over;
  --operations_;
  ended_.push_back({message.socket, operation, status});
  operation.local.clear();
}

void Connection::end_done() {
  const auto end_in = [&](Outgoing& message) {
    for (Operation& one : message.operations) {
      if (is_out(one) && one.work <= done_) end(message, one, OperationStatus::success);
    }
  };
  std::ranges::for_each(finishing_, end_in);
  for (std::size_t i = 0; i < std::min(next_ + 1, queue_.size()); ++i) end_in(queue_[i]);
}

void Connection::on_failed(Tag tag, OperationStatus status) {
  const auto end_in = [&](Outgoing& message) {
    for (Operation& one : message.operations) {
      if (is_out(one) && static_cast<std::uint32_t>(one.work) == raw(tag))
        end(message, one, status);
    }
  };
  std::ranges::for_each(finishing_, end_in);
  for (std::size_t i = 0; i < std::min(next_ + 1, queue_.size()); ++i) end_in(queue_[i]);
}

/// The queue pair is cut.
void Connection::end_unsure(std::deque<Outgoing>& messages) {
  if (operations_ == 0) return;
  for (Outgoing& message : messages) {
    for (Operation& one : message.operations) {
      if (is_out(one)) end(message, one, OperationStatus::dropped);
    }
  }
}

/// Drops messages, and operations that are not over. Peers take sequences with gaps.
void Connection::drop_if(OperationStatus status, const Meant& is_meant) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    Outgoing& one = queue_[i];
    if (is_meant(i, one)) {
      for (Operation& operation : one.operations) {
        if (operation.state != Operation::State::over) end(one, operation, status);
      }
      released_.push_back(std::move(one));
    } else if (i != kept++) {
      queue_[kept - 1] = std::move(one);
    }
  }
  queue_.resize(kept);
}

}  // namespace verbatim::ulp::rds
