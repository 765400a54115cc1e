#include "mad/rmpp/rmpp_sender.h"

#include <algorithm>

#include "base/assert.h"

namespace verbatim::mad {
namespace {

std::uint32_t segments_of(std::size_t message_bytes, std::size_t header_bytes) {
  const std::size_t per_segment = wire::kMadBytes - header_bytes;
  const std::size_t data = message_bytes - header_bytes;
  return static_cast<std::uint32_t>(
      std::max<std::size_t>(1, (data + per_segment - 1) / per_segment));
}

}  // namespace

RmppSender::RmppSender(ByteSpan message, std::size_t header_bytes, const RmppPatience& patience,
                       std::uint32_t window)
    : message_(message.begin(), message.end()),
      header_bytes_(header_bytes),
      segments_(segments_of(message.size(), header_bytes)),
      patience_(patience),
      retries_left_(patience.retries),
      window_(window) {
  if (patience_.ack_timeout == 0 || patience_.ack_timeout > kAckTimeoutMax) {
    patience_.ack_timeout = kAckTimeoutMax;
  }
}

MadBytes RmppSender::next_segment(TimeNs now) {
  VERBATIM_ASSERT(may_send());
  MadBytes mad{};
  const std::size_t per_segment = mad.size() - header_bytes_;
  const std::size_t first = header_bytes_ + (next_ - 1) * per_segment;
  const std::size_t bytes = std::min(per_segment, message_.size() - first);
  std::copy_n(message_.begin(), header_bytes_, mad.begin());
  std::copy_n(message_.begin() + static_cast<std::ptrdiff_t>(first), bytes,
              mad.begin() + static_cast<std::ptrdiff_t>(header_bytes_));

  wire::RmppHeader header{.type = wire::RmppType::data,
                          .is_last = next_ == segments_,
                          .is_first = next_ == 1,
                          .is_active = true,
                          .segment = next_};
  // Each segment's class header counts; the last one's padding does not.
  const std::size_t class_bytes = header_bytes_ - kRmppPayloadAt;
  if (header.is_last) header.length = static_cast<std::uint32_t>(class_bytes + bytes);
  if (header.is_first) {
    header.length =
        static_cast<std::uint32_t>(segments_ * class_bytes + message_.size() - header_bytes_);
  }
  encode(header, std::span(mad));
  sent_ = std::max(sent_, next_);
  ++next_;
  deadline_ = now + patience_.ack_timeout;
  return mad;
}

std::expected<bool, wire::RmppStatus> RmppSender::on_ack(std::uint32_t segment,
                                                         std::uint32_t window) {
  using wire::RmppStatus;
  if (window < segment) return std::unexpected(RmppStatus::window_below_segment);
  if (is_acknowledged()) return true;
  // What was never sent cannot have come.
  if (segment > sent_) return std::unexpected(RmppStatus::segment_beyond_window);
  if (window < window_ || segment < acknowledged_) return false;  // An old one.
  if (segment > acknowledged_) retries_left_ = patience_.retries;
  acknowledged_ = segment;
  next_ = std::max(next_, acknowledged_ + 1);
  window_ = window;
  if (is_acknowledged()) deadline_ = kNever;
  return is_acknowledged();
}

bool RmppSender::on_timeout(TimeNs now) {
  if (retries_left_ == 0) return false;
  --retries_left_;
  next_ = acknowledged_ + 1;
  deadline_ = now + patience_.ack_timeout;  // If the peer's window stays closed, nothing is sent.
  return true;
}

}  // namespace verbatim::mad
