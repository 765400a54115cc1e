#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "ulp/rds/broker.h"

namespace verbatim::ulp::rds {

/// What getsockopt(RDS_INFO_*) tells: elements of one size, in the machine's order, addresses and
/// ports big-endian (linux/rds.h). IPv4 alone.
struct Info {
  std::uint32_t each = 0;
  std::vector<std::byte> bytes;
};
Result<Info> info_of(std::int32_t option, const Broker& broker);

}  // namespace verbatim::ulp::rds
