#pragma once

namespace verbatim::ulp::target {

/// The main function of `verbatim-ulpd target`: serves disks to hosts of storage protocols.
int run_target(int argc, char** argv);

}  // namespace verbatim::ulp::target
