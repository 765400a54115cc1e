#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"
#include "transport/ib/requester/request_ring.h"

namespace verbatim::transport {

/// Smoothed round-trip time; one packet is timed at a time. A packet that was sent twice is not
/// timed (Karn's rule: it is unknown which of the two was answered).
class RoundTrip {
 public:
  /// A peer may lose its CPU for some scheduler ticks without any packet being lost.
  static constexpr TimeNs kProbeMin = 1 * kMillisecond;

  void start() { *this = RoundTrip(); }
  void sent(Sequence sequence, TimeNs now) {
    if (timing_) return;
    timing_ = true;
    sequence_ = sequence;
    sent_at_ = now;
  }
  void cancel() { timing_ = false; }
  /// All packets before `sequence` are acknowledged.
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
  bool is_known() const { return smoothed_ != 0; }
  /// Returns the time of silence after which a probe is sent. Requires `is_known`.
  TimeNs probe_after() const { return std::max(2 * smoothed_ + 4 * deviation_, kProbeMin); }

 private:
  bool timing_ = false;
  Sequence sequence_ = 0;
  TimeNs sent_at_ = 0;
  TimeNs smoothed_ = 0;  // 0: unknown.
  TimeNs deviation_ = 0;
};

}  // namespace verbatim::transport
