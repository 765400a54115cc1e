#pragma once

#include "ulp/target_tree/kind.h"

namespace verbatim::ulp::target_tree {

/// `rdma_cm/`: with what version of RoCE and what type of service a device's ports connect.
///
/// A daemon answers on_make of `rdma_cm/DEVICE` with ENODEV if there is no such device.
extern const Kind kRdmaCm;

}  // namespace verbatim::ulp::target_tree
