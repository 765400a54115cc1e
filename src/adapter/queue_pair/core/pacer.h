#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace verbatim::adapter {

/// Bytes that a rate limit counts in addition to the payload: Ethernet, IPv4, UDP, BTH and ICRC.
inline constexpr std::uint32_t kWireOverheadBytes = 14 + 20 + 8 + 12 + 4;

/// Limits a queue pair's rate (`ibv_modify_qp_rate_limit`): each packet moves the time at which the
/// next may be sent. A sender that was late or idle may catch up by one burst.
class Pacer {
 public:
  /// In units of 1000 bits a second; 0: no limit.
  void limit(std::uint32_t rate_kbps, std::uint32_t burst_bytes) {
    rate_kbps_ = rate_kbps;
    burst_ns_ = duration(burst_bytes);
    free_at_ = 0;
  }
  bool is_limited() const { return rate_kbps_ != 0; }
  bool admits(TimeNs now) const { return rate_kbps_ == 0 || now >= free_at_; }
  /// Returns the time at which the next packet may be sent.
  TimeNs free_at() const { return free_at_; }
  void count(TimeNs now, std::uint64_t bytes) {
    if (rate_kbps_ == 0) return;
    free_at_ = std::max(free_at_, now - std::min(now, burst_ns_)) + duration(bytes);
  }

 private:
  TimeNs duration(std::uint64_t bytes) const {
    constexpr std::uint64_t kNsTimesKbps = 8 * 1'000'000;
    return rate_kbps_ == 0 ? 0 : bytes * kNsTimesKbps / rate_kbps_;
  }

  std::uint32_t rate_kbps_ = 0;
  TimeNs burst_ns_ = 0;
  TimeNs free_at_ = 0;
};

}  // namespace verbatim::adapter
