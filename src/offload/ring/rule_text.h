#pragma once

#include <string>

#include "offload/ring/layout.h"

namespace verbatim::offload {

/// A rule in the words of dpdk-testpmd, its ports by their numbers in the card. What testpmd has no
/// words for (a tunnel's header, say) is told by its size.
std::string text_of(const vnic_rule& rule);

}  // namespace verbatim::offload
