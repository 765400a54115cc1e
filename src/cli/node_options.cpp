#include "cli/command.h"
#include "cli/environment.h"

namespace verbatim::cli {

void add_node_options(CLI::App& command, NodeChoice& choice) {
  command.add_option("--node", choice.node, "The node (emulated host); default: local")
      ->type_name("NAME");
  command.add_option("--address", choice.addresses, "Its addresses, separated by commas")
      ->type_name("IP,...")
      ->delimiter(',')
      ->expected(1)
      ->allow_extra_args(false)  // What follows may be the command's own word.
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command.add_option("--protocol", choice.protocol, "roce (default), or iwarp, over TCP")
      ->type_name("NAME");
  command.add_option("--roce", choice.roce, "RoCE versions: v2 (default), v1, v1,v2 or v2,v1")
      ->type_name("VERSIONS");
  command
      .add_option("--device", choice.device, "Its device: verbatim0 (default), mlx5_0, NAME_GUID")
      ->type_name("NAME");
  command.add_option("--profile", choice.profile, "Limits: verbatim, connectx-7, rxe or tiny")
      ->type_name("NAME");
  command.add_option("--function", choice.function, "A card's function as its interface: CARD/vf2")
      ->type_name("VF");
  command.add_option("--path", choice.path, "On this machine: auto (default), wire or direct")
      ->type_name("NAME");
}

}  // namespace verbatim::cli
