#include "sim/workload.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

namespace verbatim::sim {

using transport::Operation;
using transport::Slot;
using transport::Status;

namespace {

std::size_t message_bytes_max(const PairOptions& pair, const WorkloadOptions& options) {
  return std::max<std::size_t>(options.message_packets_max * bytes_of(pair.path_mtu), 8);
}

/// Both areas have twice the size of the longest message, so that messages overlap at different
/// places.
std::size_t area_bytes(const PairOptions& pair, const WorkloadOptions& options) {
  return 2 * message_bytes_max(pair, options);
}

}  // namespace

std::size_t Workload::memory_bytes(const PairOptions& pair, const WorkloadOptions& options) {
  return 2 * area_bytes(pair, options) + kWords * 8 +
         (pair.depth + kReceives + 1) * message_bytes_max(pair, options);
}

Workload::Workload(Pair& pair, int from, const PairOptions& pair_options,
                   const WorkloadOptions& options)
    : random_(pair.random()),
      from_(pair[from]),
      to_(pair[1 - from]),
      options_(options),
      may_lose_(pair_options.service == wire::Service::uc),
      depth_(pair_options.depth),
      mtu_(bytes_of(pair_options.path_mtu)),
      message_max_(message_bytes_max(pair_options, options)),
      area_(area_bytes(pair_options, options)),
      target_(area_) {
  for (std::size_t i = 0; i < area_; i += 8) {
    const std::uint64_t value = random_.next();
    std::memcpy(&from_.memory()[i], &value, 8);
  }
  from_.on_completed = [this](Slot slot, Status status) { on_completed(slot, status); };
}

void Workload::step() {
  if (random_.chance(options_.receive_posting)) post_receives();
  while (posted_ < options_.requests && !from_.requester().full()) post_one();
}

bool Workload::done() const {
  return posted_ == options_.requests && from_.requester().outstanding() == 0;
}

void Workload::post_receives() {
  while (to_.receives_posted() < kReceives) {
    // One buffer more than requests, because that of a message in progress is still in use.
    const std::size_t place = receives_++ % (kReceives + 1);
    to_.post_receive({receives_offset() + place * message_max_, message_max_});
  }
}

std::size_t Workload::random_length() {
  switch (random_.below(4)) {
    case 0:
      return random_.below(20);
    case 1:
      return random_.below(options_.message_packets_max + 1) * mtu_;  // Full packets only.
    default:
      return random_.below(message_max_ + 1);
  }
}

void Workload::post_one() {
  transport::SendRequest request;
  request.operation = options_.operations[random_.below(options_.operations.size())];
  request.fence = random_.chance(options_.fence);
  request.remote_key = to_.key();
  request.remote_srq = Node::kSrq;
  Expected expected{.operation = request.operation};
  switch (request.operation) {
    case Operation::read:
      post_read(request, expected);
      break;
    case Operation::compare_and_swap:
    case Operation::fetch_and_add:
      post_atomic(request, expected);
      break;
    case Operation::atomic_write:
      post_atomic_write(request, expected);
      break;
    case Operation::flush:
      post_flush(request);
      break;
    case Operation::local_invalidate:
      request.remote_key = from_.make_window();
      break;
    case Operation::bind_window:
      request.remote_key = {};
      break;
    default:
      post_message(request, expected);
  }
  outstanding_.push_back(expected);
  ++posted_;
  from_.post(request, expected.local);
}

void Workload::post_message(transport::SendRequest& request, Expected& expected) {
  const std::size_t length = random_length();
  const std::size_t source = random_.below(area_ - length + 1);
  // If packets may be lost for good, every write of a byte writes the same value: the byte is then
  // either old or right.
  const std::size_t target = may_lose_ ? source : random_.below(area_ - length + 1);
  expected.local = {source, length};
  request.length = length;
  request.solicited = random_.chance(0.3);
  request.immediate = static_cast<std::uint32_t>(random_.next());
  const bool is_write = transport::is_write(request.operation);
  const MutableByteSpan bytes = from_.memory().subspan(source, length);
  if (is_write) {
    request.remote_address = Node::remote_address(target_offset() + target);
    std::ranges::copy(bytes, target_.begin() + static_cast<std::ptrdiff_t>(target));
  }
  if (request.operation == Operation::write) return;
  const auto& operation = transport::info(request.operation);
  const bool has_immediate = operation.immediate;
  if (operation.invalidate) request.remote_key = to_.make_window();
  to_.deliveries().sent({.is_write = is_write,
                         .has_immediate = has_immediate,
                         .immediate = has_immediate ? request.immediate : 0,
                         .solicited = request.solicited,
                         .invalidated = operation.invalidate ? request.remote_key : MemoryKey{},
                         .bytes = {bytes.begin(), bytes.end()}});
}

void Workload::post_read(transport::SendRequest& request, Expected& expected) {
  const std::size_t length = random_length();
  expected.source = random_.below(area_ - length + 1);
  const std::size_t place = from_.sends().posted_count() % depth_;
  expected.local = {results_offset() + place * message_max_, length};
  request.length = length;
  request.remote_address = Node::remote_address(expected.source);
}

void Workload::post_atomic(transport::SendRequest& request, Expected& expected) {
  const std::size_t word = random_.below(kWords);
  const std::size_t place = from_.sends().posted_count() % depth_;
  expected.local = {results_offset() + place * message_max_, 8};
  expected.original = words_[word];
  request.length = 8;
  request.remote_address = Node::remote_address(words_offset() + 8 * word);
  request.compare_add = random_.next();
  request.swap = random_.next();
  if (request.operation == Operation::fetch_and_add) {
    words_[word] += request.compare_add;
    return;
  }
  if (random_.chance(0.7)) request.compare_add = words_[word];
  if (request.compare_add == words_[word]) words_[word] = request.swap;
}

void Workload::post_atomic_write(transport::SendRequest& request, Expected& expected) {
  const std::size_t word = random_.below(kWords);
  expected.local = {random_.below(area_ - 7), 8};
  request.length = 8;
  request.remote_address = Node::remote_address(words_offset() + 8 * word);
  std::memcpy(&words_[word], &from_.memory()[expected.local.offset], 8);
}

void Workload::post_flush(transport::SendRequest& request) {
  request.flush = {.placement = wire::Feth::kGlobal,
                   .selectivity = static_cast<wire::Feth::Selectivity>(random_.below(2))};
  request.flush_bytes = static_cast<std::uint32_t>(random_.below(area_));
  request.remote_address = Node::remote_address(target_offset());
}

void Workload::on_completed(Slot slot, Status status) {
  const Expected expected = outstanding_.front();
  outstanding_.pop_front();
  if (status != Status::success) return;
  const MutableByteSpan local =
      from_.memory().subspan(expected.local.offset, expected.local.length);
  if (expected.operation == Operation::read) {
    const MutableByteSpan source = to_.memory().subspan(expected.source, expected.local.length);
    if (!std::ranges::equal(local, source)) {
      violations_.push_back(fmt::format("READ in slot {} brought other bytes", slot));
    }
  } else if (transport::is_atomic(expected.operation)) {
    std::uint64_t original = 0;
    std::memcpy(&original, local.data(), sizeof original);
    if (original != expected.original) {
      violations_.push_back(fmt::format("atomic in slot {} returned {:#x} instead of {:#x}", slot,
                                        original, expected.original));
    }
  }
}

void Workload::check_target() {
  const MutableByteSpan target = to_.memory().subspan(target_offset(), area_);
  for (std::size_t i = 0; i < area_; ++i) {
    const bool old = may_lose_ && target[i] == std::byte{0};
    if (target[i] != target_[i] && !old) {
      violations_.push_back(fmt::format("byte {} of the target is wrong", i));
      return;
    }
  }
  const MutableByteSpan words = to_.memory().subspan(words_offset(), kWords * 8);
  if (std::memcmp(words.data(), words_, sizeof words_) != 0) {
    violations_.push_back("an atomic was executed twice or not at all");
  }
}

Violations Workload::finish() {
  check_target();
  return violations_;
}

}  // namespace verbatim::sim
