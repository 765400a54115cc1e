#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"
#include "transport/ib/requester/request_ring.h"

namespace verbatim::transport {

/// Smoothed round-trip time, from one timed packet at a time. A packet that was sent twice is not
/// timed (Karn's rule: which of the two was answered is unknown).
class RoundTrip {
 public:
  /// Before the first sample: well over a round trip on any machine, well under common ACK
  /// time-outs.
  static constexpr TimeNs kProbeStart = 10 * kMillisecond;
  /// A peer may be off its processor for some scheduler ticks without anything being lost.
  static constexpr TimeNs kProbeMin = 1 * kMillisecond;

  void start() { *this = RoundTrip(); }
  void sent(Sequence sequence, TimeNs now) {
    if (timing_) return;
    timing_ = true;
    sequence_ = sequence;
    sent_at_ = now;
  }
  void cancel() { timing_ = false; }
  /// Everything before `sequence` has been answered.
  void answered(Sequence sequence, TimeNs now) {
    if (!timing_ || sequence <= sequence_) return;
    timing_ = false;
    const TimeNs sample = elapsed(sent_at_, now);
    if (smoothed_ == 0) {
      smoothed_ = std::max<TimeNs>(sample, 1);
      deviation_ = sample / 2;
      return;
    }
    const TimeNs error = sample > smoothed_ ? sample - smoothed_ : smoothed_ - sample;
    deviation_ += error / 4 - deviation_ / 4;
    smoothed_ = std::max<TimeNs>(smoothed_ - smoothed_ / 8 + sample / 8, 1);
  }
  /// Silence of this length hints at a lost tail.
  TimeNs probe_after() const {
    return smoothed_ == 0 ? kProbeStart : std::max(2 * smoothed_ + 4 * deviation_, kProbeMin);
  }

 private:
  bool timing_ = false;
  Sequence sequence_ = 0;
  TimeNs sent_at_ = 0;
  TimeNs smoothed_ = 0;  // 0: not known yet.
  TimeNs deviation_ = 0;
};

}  // namespace verbatim::transport
