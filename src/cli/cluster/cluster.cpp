#include "cli/cluster/commands.h"
#include "cli/command.h"

namespace verbatim::cli {
namespace {

constexpr const char* kExamples =
    "Each node has a network and a host name of its own (n1, n2...) and an RDMA device;\n"
    "files and users are the machine's. No root, where users may make namespaces.\n"
    "\n"
    "Examples:\n"
    "  verbatim cluster up --nodes 4 --slots 2\n"
    "  verbatim cluster show --hostfile > hosts\n"
    "  verbatim cluster run -- mpirun -np 8 -hostfile hosts ./hello\n"
    "  verbatim cluster run --on n2 -- ibv_devinfo\n"
    "  verbatim cluster down";

}  // namespace

void add_cluster(CLI::App& app, const std::vector<std::string>& command, int& exit_status) {
  auto* all = app.add_subcommand("cluster", "Run programs on many nodes, as mpirun does");
  all->require_subcommand(1);
  all->footer(kExamples);
  cluster::add_up(*all, exit_status);
  cluster::add_run(*all, command, exit_status);
  cluster::add_show(*all, exit_status);
  cluster::add_down(*all, exit_status);
  cluster::add_agent(*all, command, exit_status);
  cluster::add_serve(*all, exit_status);
}

}  // namespace verbatim::cli
