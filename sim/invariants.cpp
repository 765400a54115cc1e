#include "sim/invariants.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace verbatim::sim {

using transport::Status;

void SendCompletions::posted(transport::Slot slot) {
  if (slot != posted_) violations_.push_back(fmt::format("post {} got slot {}", posted_, slot));
  ++posted_;
}

void SendCompletions::executed(transport::Slot slot) {
  if (slot < executed_end_ || slot < completed_ || slot >= posted_) {
    violations_.push_back(fmt::format("slot {} is carried out again, or out of turn", slot));
  }
  executed_end_ = slot + 1;
}

void SendCompletions::completed(transport::Slot slot, Status status) {
  if (slot != completed_) {
    violations_.push_back(fmt::format("slot {} completed where {} was due", slot, completed_));
  }
  if (completed_ >= posted_) {
    violations_.push_back(fmt::format("slot {} completed but was not posted", slot));
  }
  ++completed_;
  if (first_failure_ != Status::success && status != Status::flushed) {
    violations_.push_back(
        fmt::format("slot {} completed with {} after a failure", slot, static_cast<int>(status)));
  }
  if (first_failure_ == Status::success) first_failure_ = status;
}

void SendCompletions::finish() {
  if (completed_ != posted_) {
    violations_.push_back(fmt::format("{} posted, {} completed", posted_, completed_));
  }
}

bool Deliveries::matches(const ExpectedMessage& message, const Arrived& arrived) {
  if (message.is_write != arrived.is_write || message.has_immediate != arrived.has_immediate ||
      message.solicited != arrived.solicited || message.bytes.size() != arrived.byte_count) {
    return false;
  }
  if (message.invalidated != arrived.invalidated) return false;
  if (message.has_immediate && message.immediate != arrived.immediate) return false;
  return message.is_write || std::ranges::equal(message.bytes, arrived.bytes);
}

void Deliveries::received(const Arrived& arrived) {
  if (arrived.ticket != next_ticket_) {
    violations_.push_back(
        fmt::format("receive {} completed where {} was due", arrived.ticket, next_ticket_));
  }
  ++next_ticket_;
  ++received_;
  if (promise_ == Promise::intact) next_ = 0;
  if (promise_ != Promise::exactly_once) {
    while (next_ < expected_.size() && !matches(expected_[next_], arrived)) ++next_;
  }
  if (next_ == expected_.size()) {
    violations_.push_back(
        fmt::format("receive {} tells of a message that was not sent, or again", arrived.ticket));
    return;
  }
  if (!matches(expected_[next_], arrived)) {
    violations_.push_back(fmt::format(
        "receive {} ({} bytes, immediate {:#x}) is not message {} ({} bytes, immediate {:#x})",
        arrived.ticket, arrived.byte_count, arrived.immediate, next_, expected_[next_].bytes.size(),
        expected_[next_].immediate));
  }
  ++next_;
}

void Deliveries::finish() {
  if (promise_ == Promise::exactly_once && next_ != expected_.size()) {
    violations_.push_back(fmt::format("{} messages sent, {} received", expected_.size(), next_));
  }
}

}  // namespace verbatim::sim
