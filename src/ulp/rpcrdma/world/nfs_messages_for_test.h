#pragma once

#include <cstdint>
#include <vector>

#include "sim/random.h"

namespace verbatim::ulp::rpcrdma {

/// A call of NFS, or of another program, and an answer that fits it.
struct Exchange {
  std::vector<std::byte> call, reply;
};
Exchange make_exchange(std::uint32_t xid, sim::Random& random);
/// A server's call to its client, and the answer.
Exchange make_back_exchange(std::uint32_t xid, sim::Random& random);

}  // namespace verbatim::ulp::rpcrdma
