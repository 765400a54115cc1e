#pragma once

namespace verbatim::ulp::initiator {

/// The main function of `verbatim-ulpd initiator`: keeps the logins of a node's programs to storage
/// targets, as the kernel does for programs on a machine with a card.
int run_initiator(int argc, char** argv);

}  // namespace verbatim::ulp::initiator
