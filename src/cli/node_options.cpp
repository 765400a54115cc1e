#include "cli/command.h"
#include "cli/environment.h"

namespace verbatim::cli {

void add_node_options(CLI::App& command, NodeChoice& choice) {
  command.add_option("--node", choice.node, "Name of the node (emulated host)");
  command
      .add_option("--address", choice.addresses,
                  "IP address of the node; may be given several times")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_option("--protocol", choice.protocol,
                     "What its adapter speaks: roce (default), or iwarp, over TCP");
  command.add_option("--roce", choice.roce,
                     "RoCE versions of its GIDs, that of rdma_cm first: v2 (default); v1,v2 ...");
}

}  // namespace verbatim::cli
