#include "fabric/trunk/send_window.h"

#include <algorithm>

#include "base/assert.h"

namespace verbatim::fabric::trunk {

void SendWindow::push(std::uint64_t session, ByteSpan packet, bool is_management) {
  VERBATIM_ASSERT(has_room(is_management));
  Entry& entry = (*entries_)[end_ % kMax];
  entry.size =
      encode({.to = session,
              .body = Packet{.sequence = end_, .is_management = is_management, .bytes = packet}},
             entry.bytes);
  ++end_;
}

void SendWindow::reset() {
  first_ = sent_ = highest_ = end_ = 0;
  due_ = timed_at_ = kNever;
  timeouts_ = 0;
  round_trip_ = 0;
}

std::optional<ByteSpan> SendWindow::take_next(TimeNs now) {
  if (!has_next()) return std::nullopt;
  const Entry& entry = (*entries_)[sent_ % kMax];
  if (due_ == kNever) due_ = now + timeout();
  if (sent_ != highest_) {
    ++repeated_;
  } else {
    if (timed_at_ == kNever) {
      timed_ = sent_;
      timed_at_ = now;
    }
    ++highest_;
  }
  ++sent_;
  return ByteSpan(entry.bytes).first(entry.size);
}

void SendWindow::on_acknowledge(std::uint32_t next, bool is_gap, TimeNs now) {
  if (next - first_ > highest_ - first_) return;  // An old one, that came late.
  if (next != first_) {
    if (sent_ - first_ < next - first_) sent_ = next;
    first_ = next;
    timeouts_ = 0;
    measure(now);
    due_ = first_ == sent_ ? kNever : now + timeout();
  }
  if (is_gap) go_back();
}

void SendWindow::on_time(TimeNs now) {
  if (due_ > now) return;
  if (timeout() < kTimeoutMax) ++timeouts_;
  go_back();
}

void SendWindow::go_back() {
  sent_ = first_;
  due_ = timed_at_ = kNever;  // Which of both is acknowledged would not be known.
}

void SendWindow::measure(TimeNs now) {
  if (timed_at_ == kNever || timed_ - first_ < kMax) return;  // It is still in the window.
  const TimeNs sample = elapsed(timed_at_, now);
  round_trip_ = round_trip_ == 0 ? sample : (7 * round_trip_ + sample) / 8;
  timed_at_ = kNever;
}

TimeNs SendWindow::timeout() const {
  const TimeNs first = std::clamp(4 * round_trip_, kTimeoutMin, kFirstTimeoutMax);
  return std::min(first << timeouts_, kTimeoutMax);
}

}  // namespace verbatim::fabric::trunk
