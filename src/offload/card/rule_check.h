#pragma once

#include <optional>

#include "base/error.h"
#include "offload/ring/layout.h"
#include "offload/switch/meter.h"
#include "offload/switch/rule.h"
#include "offload/switch/tuple.h"

namespace verbatim::offload {

/// The rule that a driver has written, checked. EINVAL: a port, domain, action or count that the
/// card does not have; EOPNOTSUPP: an action that it does not know.
Result<Rule> rule_of(const vnic_rule& rule, std::uint16_t ports);
/// A rule as a driver has written it; for words about it.
vnic_rule ring_rule_of(const StoredRule& rule);
/// Nothing: the card does not have this meter or algorithm.
std::optional<MeterProfile> profile_of(const vnic_meter& meter);

}  // namespace verbatim::offload
