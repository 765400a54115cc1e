#include "offload/switch/meter.h"

#include <algorithm>

#include "base/types.h"
#include "offload/switch/tuple.h"

namespace verbatim::offload {

Meter::Meter(const MeterProfile& profile, TimeNs now)
    : profile_(profile),
      committed_{.tokens = profile.committed_burst},
      other_{.tokens = profile.other_burst},
      last_(now) {}

void Meter::change(const MeterProfile& profile, TimeNs now) {
  refill(now);
  profile_ = profile;
  committed_.tokens = std::min(committed_.tokens, profile.committed_burst);
  other_.tokens = std::min(other_.tokens, profile.other_burst);
}

/// `part`: of a token, what is left of before, and then of now.
std::uint64_t Meter::tokens_of(std::uint64_t rate, TimeNs time, std::uint64_t& part) {
  const Wide whole = static_cast<Wide>(rate) * time + part;
  part = static_cast<std::uint64_t>(whole % kSecond);
  const Wide tokens = whole / kSecond;
  return tokens > ~std::uint64_t{0} ? ~std::uint64_t{0} : static_cast<std::uint64_t>(tokens);
}

void Meter::refill(TimeNs now) {
  if (now <= last_) return;
  const TimeNs time = now - last_;
  last_ = now;
  const bool has_two_rates = profile_.algorithm == MeterProfile::Algorithm::kTwoRate;
  const std::uint64_t come = tokens_of(profile_.committed_rate, time, committed_.part);
  const std::uint64_t room = profile_.committed_burst - committed_.tokens;
  const std::uint64_t excess = come - std::min(come, room);
  committed_.tokens += std::min(come, room);
  const std::uint64_t others =
      has_two_rates ? tokens_of(profile_.peak_rate, time, other_.part) : excess;
  other_.tokens += std::min(others, profile_.other_burst - other_.tokens);
}

Color Meter::mark(std::uint64_t bytes, TimeNs now) {
  refill(now);
  const std::uint64_t amount = profile_.counts_packets ? 1 : bytes;
  if (profile_.algorithm == MeterProfile::Algorithm::kTwoRate) {  // RFC 2698, section 3.
    if (other_.tokens < amount) return Color::kRed;
    other_.tokens -= amount;
    if (committed_.tokens < amount) return Color::kYellow;
    committed_.tokens -= amount;
    return Color::kGreen;
  }
  if (committed_.tokens >= amount) {  // RFC 2697, section 3.
    committed_.tokens -= amount;
    return Color::kGreen;
  }
  if (other_.tokens < amount) return Color::kRed;
  other_.tokens -= amount;
  return Color::kYellow;
}

bool Meter::take_if_green(std::uint64_t packets, std::uint64_t bytes, TimeNs now) {
  refill(now);
  const std::uint64_t amount = profile_.counts_packets ? packets : bytes;
  const bool has_two_rates = profile_.algorithm == MeterProfile::Algorithm::kTwoRate;
  if (committed_.tokens < amount || (has_two_rates && other_.tokens < amount)) return false;
  committed_.tokens -= amount;
  if (has_two_rates) other_.tokens -= amount;
  return true;
}

bool Meters::set(std::uint32_t id, const MeterProfile& profile, TimeNs now) {
  if (id >= meters_.size()) return false;
  if (meters_[id]) {
    meters_[id]->change(profile, now);
  } else {
    meters_[id].emplace(profile, now);
  }
  return true;
}

bool Meters::clear(std::uint32_t id) {
  if (!has(id)) return false;
  meters_[id].reset();
  return true;
}

bool Meters::pass(std::uint32_t id, std::uint64_t bytes, TimeNs now, MeterCount& count) {
  if (!has(id)) return true;
  const Color color = meters_[id]->mark(bytes, now);
  ++count.packets[raw(color)];
  count.bytes[raw(color)] += bytes;
  const bool drops = meters_[id]->profile().drops[raw(color)];
  if (drops) {
    ++count.dropped_packets;
    count.dropped_bytes += bytes;
  }
  return !drops;
}

bool Meters::pass_whole(std::uint32_t id, std::uint64_t packets, std::uint64_t bytes, TimeNs now,
                        MeterCount& count) {
  if (!has(id)) return true;
  const bool drops_green = meters_[id]->profile().drops[raw(Color::kGreen)];
  if (drops_green || !meters_[id]->take_if_green(packets, bytes, now)) return false;
  count.packets[raw(Color::kGreen)] += packets;
  count.bytes[raw(Color::kGreen)] += bytes;
  return true;
}

}  // namespace verbatim::offload
