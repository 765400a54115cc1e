#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "base/text/list.h"
#include "ulp/rdma/service_place.h"

namespace verbatim::ulp::target {

/// "64M", "1g", "4096": bytes, with K, M, G or T for powers of 1,024. EINVAL.
Result<std::uint64_t> parse_bytes(const std::string& text);
using rdma::parse_place;

}  // namespace verbatim::ulp::target
