#pragma once

#include <bit>
#include <cstdint>

#include "fabric/data/image/records.h"

/// Which lane of an output port sends next (IBA 7.6.9). Pure: the tables of the port, the state in
/// the link.
namespace verbatim::fabric {

class Arbiter {
 public:
  Arbiter(LinkRecord& link, const PortRecord& port) : link_(link), port_(port) {}

  /// `ready`: a bit for each lane that has a packet and its credits; not 0. Lanes of the high
  /// table go first until the limit of high priority is used up; then one packet of the low table
  /// does. A lane that no table has goes if no other one is ready.
  unsigned choose(std::uint32_t ready) {
    if ((ready >> kManagementLane & 1) != 0) {
      chosen_ = kOutside;
      return kManagementLane;
    }
    const unsigned limit = port_.high_limit.load(std::memory_order_relaxed);
    const bool has_high = find(kHigh, ready);
    const bool has_low = find(kLow, ready);
    const bool yields = link_.high_bytes == 0 && limit != kNeverYields;
    if (has_high && (!yields || !has_low)) {
      if (yields) link_.high_bytes = bytes_of(limit);
      return take(kHigh);
    }
    if (has_low) {
      link_.high_bytes = bytes_of(limit);
      return take(kLow);
    }
    chosen_ = kOutside;
    return next_outside(ready);
  }

  /// The packet of the lane that was chosen.
  void charge(std::uint32_t blocks) {
    if (chosen_ == kHigh) {
      link_.high_weight = less(link_.high_weight, blocks);
      link_.high_bytes = less(link_.high_bytes, blocks * kBlockBytes);
    } else if (chosen_ == kLow) {
      link_.low_weight = less(link_.low_weight, blocks);
    }
  }

 private:
  enum Table : std::uint8_t { kHigh, kLow, kOutside };
  static constexpr unsigned kNeverYields = 255;

  /// The last packet of a turn may use more than is left.
  static std::uint32_t less(std::uint32_t left, std::uint32_t used) {
    return left > used ? left - used : 0;
  }
  /// 0: one packet.
  static std::uint32_t bytes_of(unsigned limit) { return limit == 0 ? 1 : limit * 4096; }
  std::uint16_t entry(Table table, unsigned index) const {
    return port_.arbitration[table][index % kArbitrationEntries].load(std::memory_order_relaxed);
  }
  static unsigned lane_of(std::uint16_t entry) { return entry & 15; }
  static unsigned weight_of(std::uint16_t entry) { return entry >> 8; }

  /// Finds the table's next entry whose lane is ready: the one in force while it has weight left.
  bool find(Table table, std::uint32_t ready) {
    Turn& turn = turns_[table];
    turn = {table == kHigh ? link_.high_entry : link_.low_entry,
            table == kHigh ? link_.high_weight : link_.low_weight};
    const std::uint16_t current = entry(table, turn.entry);
    if (turn.weight > 0 && weight_of(current) != 0 && (ready >> lane_of(current) & 1) != 0) {
      return true;
    }
    for (unsigned i = 1; i <= kArbitrationEntries; ++i) {
      const unsigned at = (turn.entry + i) % kArbitrationEntries;
      const std::uint16_t candidate = entry(table, at);
      if (weight_of(candidate) == 0 || (ready >> lane_of(candidate) & 1) == 0) continue;
      turn = {static_cast<std::uint8_t>(at), weight_of(candidate)};
      return true;
    }
    return false;
  }
  unsigned take(Table table) {
    chosen_ = table;
    (table == kHigh ? link_.high_entry : link_.low_entry) = turns_[table].entry;
    (table == kHigh ? link_.high_weight : link_.low_weight) = turns_[table].weight;
    return lane_of(entry(table, turns_[table].entry));
  }
  /// Round robin; the lane of the last turn stands in `low_entry`, which no table uses then.
  unsigned next_outside(std::uint32_t ready) {
    const unsigned after = (link_.low_entry + 1u) % kLanes;
    const auto offset = static_cast<unsigned>(std::countr_zero((ready | ready << kLanes) >> after));
    const unsigned lane = (after + offset) % kLanes;
    link_.low_entry = static_cast<std::uint8_t>(lane);
    return lane;
  }

  struct Turn {
    std::uint8_t entry = 0;
    std::uint32_t weight = 0;
  };
  LinkRecord& link_;
  const PortRecord& port_;
  Turn turns_[2];
  Table chosen_ = kOutside;
};

}  // namespace verbatim::fabric
