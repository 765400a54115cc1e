#include "dropin/ibverbs/data/send_batch.h"

#include <cstring>

#include "base/log.h"

namespace verbatim::dropin {

using adapter::SendWork;

void SendBatch::fail(int code, const char* why) {
  if (code_ != 0) return;
  code_ = code;
  why_ = why;
}

void SendBatch::add(const SendWork& work) {
  if (code_ != 0) return;
  if ((operations_ >> raw(work.request.operation) & 1) == 0) {
    return fail(EINVAL, "the operation is not among the queue pair's send_ops_flags");
  }
  if (works_.size() == works_.capacity()) return fail(ENOMEM, "more requests than the queue has");
  works_.push_back(work);
  has_data_ = false;
}

SendWork* SendBatch::last() {
  if (code_ == 0 && works_.empty()) fail(EINVAL, "no request was begun");
  return code_ == 0 ? &works_.back() : nullptr;
}

SendWork* SendBatch::last_without_data() {
  SendWork* const work = last();
  if (work == nullptr) return nullptr;
  if (has_data_) fail(EINVAL, "a request has one list of segments, or one of inline data");
  has_data_ = true;
  return code_ == 0 ? work : nullptr;
}

void SendBatch::set_segments(std::span<const adapter::Segment> list) {
  SendWork* const work = last_without_data();
  if (work == nullptr) return;
  if (list.size() > queue_pair_.options().capacity.send_segments) {
    return fail(EINVAL, "more segments than max_send_sge");
  }
  const auto first = segments_.size();
  segments_.insert(segments_.end(), list.begin(), list.end());
  work->segments = std::span(segments_).subspan(first);
  for (const adapter::Segment& segment : list) work->request.length += segment.length;
}

std::byte* SendBatch::set_inline(std::size_t length) {
  SendWork* const work = last_without_data();
  if (work == nullptr) return nullptr;
  const bool is_atomic_write = work->request.operation == transport::Operation::atomic_write;
  if (length > queue_pair_.options().capacity.inline_bytes && !is_atomic_write) {
    fail(EINVAL, "more inline data than max_inline_data");
    return nullptr;
  }
  std::byte* const bytes = inline_bytes_.data() + inline_bytes_.size();
  inline_bytes_.resize(inline_bytes_.size() + length);
  segments_.push_back({.address = reinterpret_cast<std::uint64_t>(bytes),
                       .length = static_cast<std::uint32_t>(length),
                       .key = {}});
  work->segments = std::span(segments_).last(1);
  work->request.length = length;
  work->flags |= adapter::kPostInline;
  return bytes;
}

int SendBatch::complete() {
  const std::lock_guard guard(lock_, std::adopt_lock);
  if (code_ == 0) {
    if (const int refused = queue_pair_.post_send(works_); refused != 0) {
      fail(refused, "the queue pair refuses one of them");
    }
  }
  if (code_ == 0) return 0;
  const auto& most = queue_pair_.options().capacity;
  // A full queue is normal for programs that post until it is full.
  log(code_ == ENOMEM ? LogLevel::debug : LogLevel::warn,
      "wr_complete: {}: {} ({} QP {:#x} in {}, {} requests built; at most {} segments, {} bytes "
      "inline, {} requests outstanding)",
      std::strerror(code_), why_, name_of(queue_pair_.type()), queue_pair_.number().value(),
      name_of(queue_pair_.state()), works_.size(), most.send_segments, most.inline_bytes,
      most.send_requests);
  return code_;
}

}  // namespace verbatim::dropin
