#pragma once

#include "ulp/target_tree/kind.h"

namespace verbatim::ulp::target_tree {

/// `target/`: LIO's core, iSCSI and SRP, as kernel 6.1 has them.
extern const Kind kLio;
/// `rdma_cm/`: empty yet.
extern const Kind kRdmaCm;

}  // namespace verbatim::ulp::target_tree
