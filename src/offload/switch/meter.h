#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.h"

namespace verbatim::offload {

enum class Color : std::uint8_t { kGreen, kYellow, kRed };

struct MeterProfile {
  enum class Algorithm : std::uint8_t {
    kSingleRate,  // RFC 2697: what the committed bucket has no room for fills the excess bucket.
    kTwoRate,     // RFC 2698: the other bucket is the peak's, and every packet takes from both.
  };
  Algorithm algorithm = Algorithm::kSingleRate;
  bool counts_packets = false;                    // Rates and bursts are in packets, not in bytes.
  std::array<bool, 3> drops{false, false, true};  // By color.
  std::uint64_t committed_rate = 0;               // A second.
  std::uint64_t peak_rate = 0;                    // Of kTwoRate.
  std::uint64_t committed_burst = 0;
  std::uint64_t other_burst = 0;  // Excess, or peak.
};

/// A three color marker in color-blind mode. Its buckets are full at first; time only goes forward.
class Meter {
 public:
  Meter(const MeterProfile& profile, TimeNs now);

  const MeterProfile& profile() const { return profile_; }
  /// Other rates and bursts; what the buckets have more than that is lost.
  void change(const MeterProfile& profile, TimeNs now);
  /// The color of a packet, whose tokens are taken.
  Color mark(std::uint64_t bytes, TimeNs now);
  /// Takes the tokens of several packets if all of them are green; otherwise none.
  bool take_if_green(std::uint64_t packets, std::uint64_t bytes, TimeNs now);

 private:
  struct Bucket {
    std::uint64_t tokens = 0;
    std::uint64_t part = 0;  // Of a token, in units of 1 / 10^9.
  };
  void refill(TimeNs now);
  static std::uint64_t tokens_of(std::uint64_t rate, TimeNs time, std::uint64_t& part);

  MeterProfile profile_;
  Bucket committed_;
  Bucket other_;
  TimeNs last_;
};

/// What a meter has marked.
struct MeterCount {
  std::array<std::uint64_t, 3> packets{};  // By color.
  std::array<std::uint64_t, 3> bytes{};
  std::uint64_t dropped_packets = 0;
  std::uint64_t dropped_bytes = 0;
};

/// The meters of a switch, by their ids.
class Meters {
 public:
  explicit Meters(std::size_t max) : meters_(max) {}

  std::size_t max() const { return meters_.size(); }
  bool has(std::uint32_t id) const { return id < meters_.size() && meters_[id].has_value(); }
  /// Makes a meter, or gives it another profile. Returns false if the id is too large.
  bool set(std::uint32_t id, const MeterProfile& profile, TimeNs now);
  bool clear(std::uint32_t id);

  /// Returns whether the packet passes; one that meets no meter does.
  bool pass(std::uint32_t id, std::uint64_t bytes, TimeNs now, MeterCount& count);
  /// The same of a large frame, if all of its packets are green. Otherwise nothing is taken, and it
  /// has to be cut.
  bool pass_whole(std::uint32_t id, std::uint64_t packets, std::uint64_t bytes, TimeNs now,
                  MeterCount& count);

 private:
  std::vector<std::optional<Meter>> meters_;
};

}  // namespace verbatim::offload
