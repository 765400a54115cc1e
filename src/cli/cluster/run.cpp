#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "cli/cluster/commands.h"
#include "cli/cluster/description.h"
#include "cli/cluster/namespaces.h"
#include "cli/command.h"
#include "cli/environment.h"
#include "cli/help.h"

namespace verbatim::cli::cluster {
namespace {

constexpr const char* kExamples =
    "The program runs as with 'verbatim run', on the node. mpirun starts its ranks on\n"
    "the other nodes by 'verbatim cluster agent', which takes the place of ssh:\n"
    "OMPI_MCA_plm_rsh_agent names it, and HYDRA_LAUNCHER_EXEC for MPICH.\n"
    "\n"
    "Examples:\n"
    "  verbatim cluster run -- mpirun -np 8 -hostfile hosts ./hello\n"
    "  verbatim cluster run --on n2 -- ib_write_bw n1";

int fail(const char* command, const Error& error) {
  fmt::print(stderr, "verbatim cluster {}: {}\n", command, error.text);
  return kExitFailure;
}

/// Debian's Open MPI takes TCP: it switches off what uses RDMA (/etc/openmpi). UCX goes by queue
/// pairs that no rdma_cm connects, which iWARP lacks; libfabric by those that it does.
Variables mpi_variables(const Description& description, const std::string& program,
                        const std::string& starter) {
  Variables variables{{"OMPI_MCA_plm_rsh_agent", program + " cluster agent"},
                      {"HYDRA_LAUNCHER_EXEC", starter}};
  if (description.protocol == "iwarp") {
    variables.insert(variables.end(), {{"OMPI_MCA_pml", "cm"},
                                       {"OMPI_MCA_mtl", "ofi"},
                                       {"OMPI_MCA_mtl_ofi_provider_include", "verbs"},
                                       {"OMPI_MCA_osc", "^ucx"}});
  } else {
    variables.insert(variables.end(), {{"OMPI_MCA_pml", "ucx"},
                                       {"OMPI_MCA_osc", "ucx"},
                                       // Else UCX for devices of Mellanox alone.
                                       {"OMPI_MCA_opal_common_ucx_devices", "any"}});
  }
  return variables;
}

/// What programs of the node, and those that start others, need to know.
Result<void> set_variables(const Description& description, const std::string& program) {
  if (getenv(kVariable) == nullptr) {
    const auto file = file_of(description.name, "json");
    if (!file) return std::unexpected(file.error());
    setenv(kVariable, file->c_str(), 1);
  }
  const auto starter = file_of(description.name, "ssh");
  if (!starter) return std::unexpected(starter.error());
  for (const auto& [variable, value] : mpi_variables(description, program, *starter)) {
    setenv(variable.c_str(), value.c_str(), 0);
  }
  return {};
}

/// Becomes `verbatim run -- COMMAND` on the node. Returns only on failure.
int become(const char* command, const Description& description, const std::string& where,
           std::vector<std::string> words) {
  const auto node = description.find(where);
  if (!node) return fail(command, node.error());
  const auto folder = own_folder();
  if (!folder) return fail(command, folder.error());
  const std::string program = *folder + "/verbatim";
  if (auto set = set_variables(description, program); !set) return fail(command, set.error());
  if (auto entered = enter(*node); !entered) return fail(command, entered.error());
  std::vector<std::string> all{program, "run"};
  if (!node->host.empty()) all.insert(all.end(), {"--host", node->host});
  if (!description.fabric.empty()) all.insert(all.end(), {"--fabric", description.fabric});
  if (!description.protocol.empty()) all.insert(all.end(), {"--protocol", description.protocol});
  all.emplace_back("--");
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> pointers;
  for (std::string& word : all) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  execv(program.c_str(), pointers.data());
  const auto failed = refuse_errno(program);
  return fail(command, failed.error());
}

/// `ssh [OPTION...] HOST COMMAND...`: the words of the command are a shell's line.
int agent(std::vector<std::string> words) {
  std::size_t host = 0;
  while (host < words.size() && words[host].starts_with('-')) {
    const bool has_value =
        words[host].size() == 2 && std::string_view("bcDeFIiLlmOopQRSWw").contains(words[host][1]);
    host += has_value ? 2 : 1;
  }
  if (host + 1 >= words.size()) {
    fmt::print(stderr, "usage: verbatim cluster agent [OPTION...] NODE COMMAND...\n");
    return kExitUsage;
  }
  const auto description = description_of("default");
  if (!description) return fail("agent", description.error());
  const std::vector<std::string> line(words.begin() + static_cast<std::ptrdiff_t>(host) + 1,
                                      words.end());
  return become("agent", *description, words[host],
                {"/bin/sh", "-c", fmt::format("{}", fmt::join(line, " "))});
}

}  // namespace

void add_run(CLI::App& cluster, const std::vector<std::string>& command, int& exit_status) {
  auto* run = cluster.add_subcommand("run", "Run a program on a node");
  struct Form {
    std::string name = "default", node;
  };
  auto form = std::make_shared<Form>();
  run->add_option("--name", form->name, "The cluster's name");
  run->add_option("--on", form->node, "The node: the first one, if not given")->type_name("NODE");
  run->prefix_command();
  run->footer(kExamples);
  run->callback([run, form, &command, &exit_status] {
    const auto words = command_line_of(*run, command);
    if (!words) {
      fmt::print(stderr, "{}", words.error().text);
      exit_status = kExitUsage;
      return;
    }
    if (words->empty()) {
      fmt::print(stderr, "verbatim cluster run: which command? Write it after '--'\n");
      exit_status = kExitUsage;
      return;
    }
    const auto description = description_of(form->name);
    if (!description) {
      exit_status = fail("run", description.error());
      return;
    }
    const std::string node = form->node.empty() ? description->nodes.front().name : form->node;
    exit_status = become("run", *description, node, *words);
  });
}

void add_agent(CLI::App& cluster, const std::vector<std::string>& after_dashes, int& exit_status) {
  auto* command = cluster.add_subcommand("agent", "Takes the place of ssh: NODE COMMAND...");
  command->prefix_command();
  command->callback([command, &after_dashes, &exit_status] {
    auto words = command->remaining();
    if (!after_dashes.empty()) words.emplace_back("--");
    words.insert(words.end(), after_dashes.begin(), after_dashes.end());
    exit_status = agent(std::move(words));
  });
}

}  // namespace verbatim::cli::cluster
