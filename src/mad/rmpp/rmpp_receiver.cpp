#include "mad/rmpp/rmpp_receiver.h"

#include <algorithm>
#include <iterator>
#include <limits>

namespace verbatim::mad {

RmppReceiver::Verdict RmppReceiver::on_data(const wire::RmppHeader& header, wire::MadSpan mad,
                                            TimeNs now) {
  if (is_complete_ || header.segment <= segment_) return Verdict::acknowledge;
  if (header.segment > window_) return Verdict::drop;
  Segment came{.mad = {}, .is_last = header.is_last, .length = header.length};
  std::ranges::copy(mad, came.mad.begin());
  early_.emplace(header.segment, came);

  for (auto next = early_.begin(); next != early_.end() && next->first == segment_ + 1;
       next = early_.erase(next)) {
    append(next->second);
    ++segment_;
    is_complete_ = next->second.is_last;
    if (is_complete_) break;
  }
  if (is_complete_) {
    early_.clear();
    deadline_ = now + kMemory;
    return Verdict::complete;
  }
  if (message_.size() > kMessageBytesMax) return Verdict::too_long;
  if (segment_ < window_) return Verdict::drop;
  window_ += kWindow;
  return Verdict::acknowledge;
}

/// A last segment's length that cannot be counts as all of it, as in Linux.
void RmppReceiver::append(const Segment& segment) {
  if (message_.empty()) {
    message_.assign(segment.mad.begin(),
                    segment.mad.begin() + static_cast<std::ptrdiff_t>(header_bytes_));
  }
  const std::size_t class_bytes = header_bytes_ - kRmppPayloadAt;
  const std::size_t all = wire::kMadBytes - header_bytes_;
  std::size_t bytes = all;
  if (segment.is_last && segment.length >= class_bytes && segment.length <= class_bytes + all) {
    bytes = segment.length - class_bytes;
  }
  const auto first = segment.mad.begin() + static_cast<std::ptrdiff_t>(header_bytes_);
  message_.insert(message_.end(), first, first + static_cast<std::ptrdiff_t>(bytes));
}

}  // namespace verbatim::mad
