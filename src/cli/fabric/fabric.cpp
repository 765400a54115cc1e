#include "cli/command.h"
#include "cli/fabric/commands.h"
#include "fabric/protocol/fabric_folder.h"

namespace verbatim::cli {
namespace {

constexpr const char* kExamples =
    "A fabric is a process of yours that runs until 'verbatim fabric down'. Its hosts\n"
    "have an InfiniBand device, verbatim0, and unmodified management programs run on\n"
    "them: opensm, ibstat, ibnetdiscover, saquery...\n"
    "\n"
    "Examples:\n"
    "  verbatim fabric generate fat-tree --hosts 16 > net\n"
    "  verbatim fabric up net --manager opensm\n"
    "  verbatim run --host H1 -- iblinkinfo\n"
    "  verbatim fabric down\n"
    "\n"
    "'verbatim fabric COMMAND --help' tells more about each command.";

}  // namespace

void add_name_option(CLI::App& command, std::string& name) {
  name = fabric::protocol::kDefaultFabric;
  command.add_option("--name", name, "The fabric; default: default")->type_name("NAME");
}

void add_fabric(CLI::App& app, int& exit_status) {
  auto* fabric = app.add_subcommand("fabric", "Start, show and end InfiniBand fabrics");
  fabric->require_subcommand(1);
  fabric->footer(kExamples);
  add_fabric_up(*fabric, exit_status);
  add_fabric_down(*fabric, exit_status);
  add_fabric_show(*fabric, exit_status);
  add_fabric_link(*fabric, exit_status);
  add_fabric_trunk(*fabric, exit_status);
  add_fabric_capture(*fabric, exit_status);
  add_fabric_check(*fabric, exit_status);
  add_fabric_generate(*fabric, exit_status);
}

}  // namespace verbatim::cli
