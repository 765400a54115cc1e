#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "base/time.h"
#include "base/types.h"

namespace verbatim::ulp::ipoib {

/// Connections that peers have made, by which only they send: who may have how many. A pure step.
class Arrivals {
 public:
  static constexpr std::size_t kMax = 128;       // As Linux.
  static constexpr std::size_t kOfOnePort = 16;  // It may have several interfaces.
  static constexpr TimeNs kIdle = 600 * kSecond;
  static constexpr TimeNs kReplaced = 10 * kSecond;  // Idle for so long: a new one may replace it.

  /// As the driver names it.
  using Id = std::uint32_t;
  struct Answer {
    const char* refusal = nullptr;  // Why not; null: it is accepted.
    std::vector<Id> replaced;       // Are to end.
  };
  Answer on_requested(Id id, const Gid& port, ByteSpan private_data, TimeNs now);
  void on_message(Id id, TimeNs now);
  void on_ended(Id id) { all_.erase(id); }
  /// Those that are to end. `on_ended` is called for them, too.
  std::vector<Id> idle(TimeNs now);
  TimeNs deadline() const { return due_; }
  std::size_t count() const { return all_.size(); }

 private:
  struct Arrival {
    Gid port{};
    TimeNs last_used = 0;
    bool is_ending = false;
  };
  std::unordered_map<Id, Arrival> all_;
  TimeNs due_ = kNever;
};

}  // namespace verbatim::ulp::ipoib
