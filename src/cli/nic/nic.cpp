#include "cli/command.h"
#include "cli/nic/commands.h"

namespace verbatim::cli {
namespace {

constexpr const char* kExamples =
    "A card is a process: an uplink and functions, which are network interfaces, and\n"
    "an embedded switch between them. Open vSwitch offloads its flows into that by the\n"
    "DPDK driver librte_net_verbatim.so.\n"
    "\n"
    "Examples:\n"
    "  verbatim nic up --vfs 2\n"
    "  verbatim nic flows\n"
    "  verbatim nic down\n"
    "  verbatim nic ovs up                       # with Open vSwitch";

}  // namespace

void add_nic(CLI::App& app, const std::vector<std::string>& command, int& exit_status) {
  auto* all = app.add_subcommand("nic", "A SmartNIC that Open vSwitch offloads into");
  all->require_subcommand(1);
  all->footer(kExamples);
  nic::add_up(*all, exit_status);
  nic::add_show(*all, exit_status);
  nic::add_flows(*all, exit_status);
  nic::add_stats(*all, exit_status);
  nic::add_down(*all, exit_status);
  nic::add_ovs(*all, command, exit_status);
}

}  // namespace verbatim::cli
