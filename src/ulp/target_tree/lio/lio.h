#pragma once

#include "ulp/target_tree/kind.h"

namespace verbatim::ulp::target_tree {

/// `target/`: LIO's core, iSCSI and SRP, as kernel 6.1 has them.
///
/// What a daemon answers: on_write of `dbroot` (ENOENT), of a device's `enable` (ENOENT and more of
/// its `fd_dev_name`), of a portal's `iser` (EADDRNOTAVAIL); on_make of `iscsi/T/tpgt_N/np/P`
/// (EINVAL if the address is in use) and of `srpt/W` (EINVAL if W is no port of this host).
extern const Kind kLio;

}  // namespace verbatim::ulp::target_tree
