#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/nic/commands.h"
#include "service/control.h"
#include "service/keeper/keeper.h"
#include "service/launch.h"

namespace verbatim::cli::nic {
namespace {

constexpr const char* kExamples =
    "Returns when the card serves. Its interfaces may be moved into network namespaces:\n"
    "the card keeps them, and one in the place of a card that was killed takes them\n"
    "over. Needs CAP_NET_ADMIN: root, or namespaces of your own.\n"
    "\n"
    "Examples:\n"
    "  verbatim nic up\n"
    "  verbatim nic up --vfs 4 --rings vf2,vf3   # two of them for run --function\n"
    "  unshare -rnm verbatim nic up --vfs 2      # without root";

int up(const std::vector<std::string>& arguments, const std::string& name) {
  const auto program = service::find_program("verbatim-nicd");
  const auto started = program
                           ? service::start_daemon({.program = *program, .arguments = arguments})
                           : std::unexpected(program.error());
  if (!started) {
    fmt::print(stderr, "verbatim nic up: {}\n", started.error().text);
    return started.error().code == EINVAL ? kExitUsage : kExitFailure;
  }
  const auto card = service::ask({.kind = "nic", .name = name}, {{"ask", "status"}});
  if (!card) {
    fmt::print(stderr, "verbatim nic up: {}\n", card.error().text);
    return kExitFailure;
  }
  const auto& ports = card->at("ports");
  const auto interface_of = [&ports](std::size_t port) {
    return ports.at(port).value("interface", "of memory");  // Rings have none.
  };
  const bool is_dpu = card->at("mode") == "dpu";
  const std::size_t last = ports.size() - (is_dpu ? 2 : 1);
  const auto host = is_dpu ? ", the host's own " + interface_of(last + 1) : std::string();
  fmt::print("card '{}': uplink {}, functions {} to {}{}; drivers connect at {}\n", name,
             interface_of(0), interface_of(1), interface_of(last), host,
             card->at("socket").get<std::string>());
  return 0;
}

}  // namespace

void add_up(CLI::App& nic, int& exit_status) {
  auto* command = nic.add_subcommand("up", "Start a card");
  struct Form {
    std::string name = "default", functions, rings, mode, prefix, rules, socket, device;
  };
  auto form = std::make_shared<Form>();
  command->add_option("--name", form->name, "The card's name");
  command->add_option("--vfs", form->functions, "How many functions: 4, at most 63")
      ->type_name("N");
  command->add_option("--rings", form->rings, "Functions of memory, for nodes: vf2,vf3")
      ->type_name("VF,...");
  command
      ->add_option("--mode", form->mode,
                   "host (the default), or dpu: Open vSwitch is on the card, not on the host")
      ->type_name("MODE");
  command->add_option("--prefix", form->prefix, "Interfaces: WORDup, WORDvf0...; nic by default")
      ->type_name("WORD");
  command->add_option("--rules", form->rules, "Room for rules: 1048576")->type_name("N");
  command->add_option("--socket", form->socket, "Where a driver connects")->type_name("PATH");
  command->add_option("--device", form->device, "Of the kernel's driver, for tc")
      ->type_name("PATH");
  command->footer(kExamples);
  command->callback([form, &exit_status] {
    std::vector<std::string> arguments{"--name", form->name};
    const auto add = [&arguments](const char* option, const std::string& value) {
      if (!value.empty()) arguments.insert(arguments.end(), {option, value});
    };
    add("--vfs", form->functions);
    add("--rings", form->rings);
    add("--mode", form->mode);
    add("--prefix", form->prefix);
    add("--rules", form->rules);
    add("--socket", form->socket);
    add("--device", form->device);
    exit_status = up(arguments, form->name);
  });
}

void add_down(CLI::App& nic, int& exit_status) {
  auto* command = nic.add_subcommand("down", "End a card; its interfaces end with it");
  auto name = std::make_shared<std::string>("default");
  command->add_option("--name", *name, "The card's name");
  command->footer("Examples:\n  verbatim nic down");
  command->callback([name, &exit_status] {
    const auto ended = service::end({.kind = "nic", .name = *name});
    // A card that was killed has left its interfaces.
    const auto keeper = service::Keeper::path_of({.kind = "nic", .name = *name});
    const bool had_keeper = keeper && service::Keeper::end(*keeper);
    if (!ended && !had_keeper) {
      fmt::print(stderr, "verbatim nic down: {}\n", ended.error().text);
    }
    exit_status = ended || had_keeper ? 0 : kExitFailure;
  });
}

}  // namespace verbatim::cli::nic
