#pragma once

#include "base/error.h"
#include "offload/ring/layout.h"
#include "offload/switch/rule.h"

namespace verbatim::offload {

/// The rule that a driver has written, checked. EINVAL: a port, domain, action or count that the
/// card does not have; EOPNOTSUPP: an action that it does not know.
Result<Rule> rule_of(const vnic_rule& rule, std::uint16_t ports);

}  // namespace verbatim::offload
