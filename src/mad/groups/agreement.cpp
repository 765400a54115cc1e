#include "mad/groups/agreement.h"

#include "base/types.h"
#include "wire/subnet/link_speed.h"

namespace verbatim::mad {
namespace {

using wire::MulticastRecord;

/// The selector says what the bound is; without one it does not count.
bool fits(std::uint32_t value, std::uint32_t bound, std::uint8_t selector, bool counts) {
  if (!counts) return true;
  switch (selector) {
    case 0:
      return value > bound;
    case 1:
      return value < bound;
    case 2:
      return value == bound;
    default:
      return true;  // The largest that there is.
  }
}

std::uint32_t rate_of(const MulticastRecord& record) {
  return wire::mbps_of(static_cast<wire::RateCode>(record.rate));
}

}  // namespace

bool agrees(const MulticastRecord& group, const MulticastRecord& wanted, std::uint64_t components) {
  const auto has = [&](std::uint64_t all) { return (components & all) == all; };
  const auto same = [&](std::uint64_t component, auto MulticastRecord::* member) {
    return !has(component) || group.*member == wanted.*member;
  };
  return same(MulticastRecord::kQKey, &MulticastRecord::qkey) &&
         same(MulticastRecord::kLid, &MulticastRecord::lid) &&
         same(MulticastRecord::kTrafficClass, &MulticastRecord::traffic_class) &&
         same(MulticastRecord::kPKey, &MulticastRecord::pkey) &&
         same(MulticastRecord::kServiceLevel, &MulticastRecord::service_level) &&
         same(MulticastRecord::kFlowLabel, &MulticastRecord::flow_label) &&
         same(MulticastRecord::kHopLimit, &MulticastRecord::hop_limit) &&
         same(MulticastRecord::kScope, &MulticastRecord::scope) &&
         fits(group.mtu, wanted.mtu, wanted.mtu_selector,
              has(MulticastRecord::kMtu | MulticastRecord::kMtuSelector)) &&
         fits(rate_of(group), rate_of(wanted), wanted.rate_selector,
              has(MulticastRecord::kRate | MulticastRecord::kRateSelector)) &&
         fits(group.life_time, wanted.life_time, wanted.life_time_selector,
              has(MulticastRecord::kLifeTime | MulticastRecord::kLifeTimeSelector));
}

}  // namespace verbatim::mad
