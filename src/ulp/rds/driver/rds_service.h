#pragma once

namespace verbatim::ulp::rds {

/// `verbatim-ulpd rds`: the broker of a node's RDS sockets.
int run_rds(int argc, char** argv);

}  // namespace verbatim::ulp::rds
