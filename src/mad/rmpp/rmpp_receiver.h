#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "base/time.h"
#include "mad/rmpp/rmpp_packet.h"

namespace verbatim::mad {

/// One message that comes from one peer (IBA 13.6.6). It takes segments in any order within its
/// window, and acknowledges the last one of each window.
class RmppReceiver {
 public:
  static constexpr std::uint32_t kWindow = 64;
  static constexpr std::size_t kMessageBytesMax = std::size_t{64} << 20;
  static constexpr TimeNs kTotalTime = 40 * kSecond;
  /// For so long a complete one is remembered: its last acknowledgement may be lost.
  static constexpr TimeNs kMemory = 10 * kSecond;

  RmppReceiver(std::size_t header_bytes, TimeNs now)
      : header_bytes_(header_bytes), deadline_(now + kTotalTime) {}

  enum class Verdict : std::uint8_t {
    drop,         // Nothing to say.
    acknowledge,  // By `segment` and `window`.
    complete,     // The same, and `take` has the message.
    too_long,
  };
  Verdict on_data(const wire::RmppHeader& header, wire::MadSpan mad, TimeNs now);

  std::uint32_t segment() const { return segment_; }
  std::uint32_t window() const { return window_; }
  bool is_complete() const { return is_complete_; }
  /// Headers as in the first segment, then the data of all segments.
  std::vector<std::byte> take() { return std::move(message_); }

  /// Until when it has to be complete; then, until when it is remembered.
  TimeNs deadline() const { return deadline_; }

  /// The window in which the peer takes the answer, if it has said so (IBA 13.6.4, double-sided
  /// transfers).
  std::uint32_t reply_window = 1;

 private:
  struct Segment {
    MadBytes mad;
    bool is_last;
    std::uint32_t length;
  };
  void append(const Segment& segment);

  std::size_t header_bytes_;
  TimeNs deadline_;
  std::map<std::uint32_t, Segment> early_;  // Behind a gap; less than a window.
  std::vector<std::byte> message_;
  std::uint32_t segment_ = 0;  // All up to this one are in `message_`.
  std::uint32_t window_ = 1;
  bool is_complete_ = false;
};

}  // namespace verbatim::mad
