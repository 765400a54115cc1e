#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/nic/commands.h"
#include "service/launch.h"

namespace verbatim::cli::nic {
namespace {

constexpr const char* kExamples =
    "Starts Debian's Open vSwitch with a card, in a folder and namespaces of yours: no\n"
    "root, no huge pages, no service of the system. 'show' says what runs, and how many\n"
    "flows the card has. 'shell' runs a command there, where ovs-vsctl, ovs-appctl,\n"
    "ovs-ofctl and verbatim find them. With '--mode dpu' Open vSwitch and the card are\n"
    "on a DPU, and the functions on its host: 'host' runs a command there. Behind '--',\n"
    "'up' takes Open vSwitch's settings (other_config).\n"
    "\n"
    "Examples:\n"
    "  verbatim nic ovs up\n"
    "  verbatim nic ovs shell -- ip netns exec vf0 ping -c 3 10.9.0.2\n"
    "  verbatim nic ovs shell -- ovs-appctl dpctl/dump-flows type=offloaded\n"
    "  verbatim nic ovs show\n"
    "  verbatim nic ovs down\n"
    "  verbatim nic ovs up --vfs 4 --rings vf2,vf3\n"
    "  verbatim nic ovs up --mode dpu -- n-offload-threads=4\n"
    "  verbatim nic ovs host -- ip netns exec vf0 ping -c 3 10.9.0.2";

struct Form {
  std::string what;
  std::string functions = "2";
  std::string mode = "host";
  std::string rings;
};

/// Becomes the script: returns only if that fails.
int ovs(const Form& form, const std::vector<std::string>& after_dashes) {
  const bool is_up = form.what == "up";
  const bool is_shell = form.what == "shell" || form.what == "host";
  if (!is_up && !is_shell && form.what != "show" && form.what != "down") {
    fmt::print(stderr, "verbatim nic ovs: '{}' is none of up, show, down, shell, host\n",
               form.what);
    return kExitUsage;
  }
  const auto program = service::find_program("verbatim-nic-ovs");
  if (!program) {
    fmt::print(stderr, "verbatim nic ovs: {}\n", program.error().text);
    return kExitFailure;
  }
  std::vector<std::string> words{*program, form.what};
  if (is_up) words.insert(words.end(), {form.functions, form.mode, form.rings});
  if (is_up || is_shell) words.insert(words.end(), after_dashes.begin(), after_dashes.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execv(program->c_str(), arguments.data());
  fmt::print(stderr, "verbatim nic ovs: {}: {}\n", *program, std::strerror(errno));
  return kExitFailure;
}

}  // namespace

void add_ovs(CLI::App& nic, const std::vector<std::string>& after_dashes, int& exit_status) {
  auto* command = nic.add_subcommand("ovs", "Debian's Open vSwitch with a card");
  auto form = std::make_shared<Form>();
  command->add_option("what", form->what, "up, show, down, shell or host")->required();
  command->add_option("--vfs", form->functions, "How many functions: 2")->type_name("N");
  command
      ->add_option("--mode", form->mode,
                   "host (the default), or dpu: the functions are on its host")
      ->type_name("MODE");
  command->add_option("--rings", form->rings, "Functions of memory, for nodes: vf2,vf3")
      ->type_name("VF,...");
  command->footer(kExamples);
  command->callback([form, after_dashes, &exit_status] { exit_status = ovs(*form, after_dashes); });
}

}  // namespace verbatim::cli::nic
