#pragma once

#include "transport/iwarp/requester.h"
#include "transport/work.h"

namespace verbatim::adapter {

/// Returns true if the node's protocol has the operation; `serves` tells the same for a queue
/// pair's type.
constexpr bool is_carried(transport::Operation operation, bool is_iwarp) {
  return !is_iwarp || transport::iwarp::carries(operation);
}

}  // namespace verbatim::adapter
