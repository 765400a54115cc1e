#include <cerrno>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "agent/client/client.h"
#include "cli/command.h"
#include "cli/disk/logins.h"
#include "cli/environment.h"
#include "cli/fabric/host.h"
#include "cli/fault.h"
#include "cli/help.h"
#include "cli/program.h"
#include "cli/sockets/carriers.h"
#include "cli/target/target_name.h"

namespace verbatim::cli {
namespace {

constexpr const char* kExamples =
    "Everything after '--' is the command. Its exit status is passed on; 127 says\n"
    "that it was not found, 126 that it cannot be executed.\n"
    "\n"
    "Programs of one node share its device. Nodes of one machine need no root: any\n"
    "address of 127.0.0.0/8 will do. Without --node and --address, VERBATIM_NODE and\n"
    "VERBATIM_ADDRESS of the environment count, else the node is 'local'.\n"
    "\n"
    "--fault injects faults into the packets that the program sends (man 1 verbatim):\n"
    "loss, duplicate, reorder and corrupt are shares, delay is a time or a range;\n"
    "peer=IP+IP and opcode=WORD+WORD choose packets; direction=receive and =both hit\n"
    "those that it receives. Programs on one machine (on a fabric: on one host) need\n"
    "'--path wire', else their requests are no packets.\n"
    "\n"
    "--sdp carries the program's TCP sockets by the Sockets Direct Protocol where the\n"
    "other end has it, too, and by TCP elsewhere. The file that LIBSDP_CONFIG_FILE\n"
    "names has rules in libsdp.conf's form.\n"
    "\n"
    "--host runs the program on a host of an InfiniBand fabric ('verbatim fabric'):\n"
    "programs see the host's device, and its agent is a node.\n"
    "\n"
    "--rsockets carries a program's sockets by RDMA (librspreload.so); its peer needs\n"
    "the option, too.\n"
    "\n"
    "Examples:\n"
    "  verbatim run -- ibv_devinfo\n"
    "  verbatim run --node a --address 127.0.0.2 -- ib_write_bw\n"
    "  verbatim run --node b --address 127.0.0.3 -- ib_write_bw 127.0.0.2\n"
    "  verbatim run --host H1 -- ibnetdiscover\n"
    "  verbatim run --sdp --node a --address 127.0.0.2 -- iperf3 -s\n"
    "  verbatim run --fault loss=1%,delay=100us..1ms,seed=7 -- ib_send_lat 10.0.0.2";

/// The descriptor that the command inherits. Its number is high, so that low ones stay free for the
/// command.
constexpr int kHoldDescriptorMin = 100;

/// Keeps the node's agent, and with it the node's view of /sys, until the command ends. If this
/// fails, the command gets the error when it opens the device.
void hold_node() {
  const auto options = agent::AgentOptions::from_environment();
  if (!options) return;
  const auto held = agent::hold_node(*options);
  if (held) fcntl(held->get(), F_DUPFD, kHoldDescriptorMin);
}

/// Returns what `verbatim fault` has set for the programs of the node; empty if nothing is.
std::string faults_of_node() {
  const auto options = agent::AgentOptions::from_environment();
  const auto set =
      options ? agent::set_faults(options->node, {}) : std::unexpected(options.error());
  const auto plan = set ? link::FaultPlan::parse(set->plan) : std::unexpected(set.error());
  return plan && !plan->is_off() ? set->plan : std::string();
}

/// Prints the faults to be injected, with the seed that reproduces them.
Result<void> set_faults(const std::string& text, bool is_on_host) {
  const auto plan = plan_with_seed(text);
  if (!plan) return std::unexpected(plan.error());
  if (is_on_host) {
    if (auto checked = plan->check_for_infiniband(); !checked) return checked;
  }
  const std::string with_seed = plan->text();
  const auto of_node = faults_of_node();
  if (!of_node.empty()) {
    fmt::print(stderr,
               "verbatim: warn: --fault counts for nothing: the node's faults are {}; "
               "'verbatim fault {} off' ends them\n",
               of_node, agent::AgentOptions::from_environment()->node);
  } else {
    fmt::print(stderr, "verbatim: faults: {}\n", with_seed);
  }
  const char* const path = getenv("VERBATIM_PATH");
  if (!plan->is_off() && (path == nullptr || std::string_view(path) != "wire")) {
    fmt::print(stderr,
               "verbatim: between programs of one {} there are no packets to hit: start both with "
               "'--path wire'\n",
               is_on_host ? "host" : "machine");
  }
  setenv("VERBATIM_FAULT", with_seed.c_str(), 1);
  return {};
}

struct Form {
  NodeChoice node;
  HostChoice host;
  std::optional<std::string> faults;
  CarrierChoice carriers;
};

/// Returns only on failure.
int execute(const Form& form, std::vector<std::string> command) {
  if (command.empty()) {
    fmt::print(stderr,
               "verbatim run: which command? Write it after '--', as in "
               "'verbatim run -- ibv_devinfo'\n");
    return kExitUsage;
  }
  const auto program = prepare_program(form.node, command);
  if (!program) {
    fmt::print(stderr, "verbatim run: {}\n", program.error().text);
    return program.error().exit_status;
  }
  const auto is_on_host = enter_host(form.host);
  if (!is_on_host) {
    fmt::print(stderr, "verbatim run: {}\n", is_on_host.error().text);
    return is_on_host.error().code == EINVAL ? kExitUsage : kExitFailure;
  }
  if (form.faults) {
    if (const auto set = set_faults(*form.faults, *is_on_host); !set) {
      fmt::print(stderr, "verbatim run: --fault: {}\n", set.error().text);
      return kExitUsage;
    }
  }
  if (const auto set = use_carriers(form.carriers, false); !set) {
    fmt::print(stderr, "verbatim run: {}\n", set.error().text);
    return kExitFailure;
  }
  hold_node();
  name_dapl_registry();
  if (const auto shown = show_target_tree(target_of(form.node, form.host), command[0]); !shown) {
    fmt::print(stderr, "verbatim run: the node's target: {}\n", shown.error().text);
    return kExitFailure;
  }
  if (const auto shown = show_logins(form.node, form.host, command[0]); !shown) {
    fmt::print(stderr, "verbatim run: {}\n", shown.error().text);
    return kExitFailure;
  }
  const StartFailure failure = become_program(*program, std::move(command));
  fmt::print(stderr, "verbatim run: {}\n", failure.text);
  return failure.exit_status;
}

}  // namespace

void add_run(CLI::App& app, const std::vector<std::string>& command, int& exit_status) {
  auto* run = app.add_subcommand("run", "Run a program on an emulated host");
  auto form = std::make_shared<Form>();  // Shared with the callback that reads it.
  add_node_options(*run, form->node);
  add_host_options(*run, form->host);
  run->add_option("--fault", form->faults, "Faults of its packets: loss=1%,delay=1ms,seed=7")
      ->type_name("FAULTS");
  add_carrier_options(*run, form->carriers);
  run->prefix_command();
  run->footer(kExamples);
  run->callback([run, form, &command, &exit_status] {
    const auto words = command_line_of(*run, command);
    if (!words) fmt::print(stderr, "{}", words.error().text);
    exit_status = words ? execute(*form, *words) : kExitUsage;
  });
}

}  // namespace verbatim::cli
