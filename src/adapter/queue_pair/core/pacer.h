#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace verbatim::adapter {

/// Bytes that a rate limit counts in addition to the payload: Ethernet, IPv4, UDP, BTH and ICRC.
inline constexpr std::uint32_t kWireOverheadBytes = 14 + 20 + 8 + 12 + 4;

/// Larger than what is sent in the time by which a sleeping thread oversleeps.
inline constexpr std::uint32_t kBurstBytes = 64 << 10;

/// Limits a queue pair's rate (`ibv_modify_qp_rate_limit`, and the static rates of paths): each
/// packet moves the time at which the next may be sent. A sender that was late or idle may catch up
/// by one burst.
class Pacer {
 public:
  /// In units of 1000 bits a second; 0: no limit but that of paths.
  void limit(std::uint32_t rate_kbps, std::uint32_t burst_bytes) {
    rate_kbps_ = rate_kbps;
    burst_bytes_ = burst_bytes;
    free_at_ = 0;
  }
  bool is_limited() const { return rate_kbps_ != 0; }
  bool admits(TimeNs now) const { return now >= free_at_; }
  /// Returns the time at which the next packet may be sent.
  TimeNs free_at() const { return free_at_; }
  /// `path_kbps`: of the path that the packet takes; 0: it has no limit.
  void count(TimeNs now, std::uint64_t bytes, std::uint32_t path_kbps = 0) {
    if ((rate_kbps_ | path_kbps) == 0) return;
    const std::uint32_t kbps = rate_kbps_ == 0 || path_kbps == 0 ? rate_kbps_ | path_kbps
                                                                 : std::min(rate_kbps_, path_kbps);
    const auto duration = [kbps](std::uint64_t of) {
      constexpr std::uint64_t kNsTimesKbps = 8 * 1'000'000;
      return of * kNsTimesKbps / kbps;
    };
    free_at_ = std::max(free_at_, now - std::min(now, duration(burst_bytes_))) + duration(bytes);
  }

 private:
  std::uint32_t rate_kbps_ = 0;
  std::uint32_t burst_bytes_ = kBurstBytes;
  TimeNs free_at_ = 0;
};

}  // namespace verbatim::adapter
