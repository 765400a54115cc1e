#include <cerrno>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/disk/logins.h"
#include "cli/environment.h"
#include "cli/fabric/host.h"
#include "cli/program.h"
#include "cli/sockets/carriers.h"
#include "cli/target/target_name.h"

namespace verbatim::cli {
namespace {

constexpr const char* kExamples =
    "To go back: leave the shell, or unset the variables that 'verbatim env' prints.\n"
    "man verbatim.7 tells what they mean. A broker that --rds starts stays until\n"
    "'verbatim rds down'.\n"
    "\n"
    "Examples:\n"
    "  eval \"$(verbatim env --node a --address 127.0.0.2)\"\n"
    "  ibv_devinfo                 # from now on, in this shell, on node a\n"
    "  eval \"$(verbatim env --host H1)\"";

struct Form {
  NodeChoice node;
  HostChoice host;
  CarrierChoice carriers;
};

using Environment = std::map<std::string, std::string, std::less<>>;

Environment environment() {
  Environment variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    if (equals != std::string_view::npos)
      variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

/// Puts this process where `run` puts a program.
std::expected<void, StartFailure> enter(const Form& form) {
  if (auto set = set_environment(form.node); !set) return set;
  const auto fail = [](const Error& error) {
    return std::unexpected(
        StartFailure{error.code == EINVAL ? kExitUsage : kExitFailure, error.text});
  };
  if (const auto entered = enter_host(form.host); !entered) return fail(entered.error());
  name_dapl_registry();
  if (const auto set = use_carriers(form.carriers, true); !set) return fail(set.error());
  for (const auto& shown : {show_target_tree(target_of(form.node, form.host), ""),
                            show_logins(form.node, form.host, "")})
    if (!shown) return fail(shown.error());
  return {};
}

/// The variables that differ then are those of `run`, without a list of them here. LD_* are printed
/// in any case: so is what a shell needs that has them already.
int print_exports(const Form& form) {
  const Environment before = environment();
  if (const auto entered = enter(form); !entered) {
    fmt::print(stderr, "verbatim env: {}\n", entered.error().text);
    return entered.error().exit_status;
  }
  const Environment after = environment();
  for (const auto& [name, value] : after) {
    const auto old = before.find(name);
    const bool is_ours = name.starts_with("VERBATIM_") || name.starts_with("LD_");
    if (is_ours || old == before.end() || old->second != value)
      fmt::print("export {}={}\n", name, shell_quoted(value));
  }
  for (const auto& [name, value] : before) {
    if (!after.contains(name)) fmt::print("unset {}\n", name);
  }
  return 0;
}

}  // namespace

void add_env(CLI::App& app, int& exit_status) {
  auto* env = app.add_subcommand("env", "Print what puts a shell on an emulated host");
  auto form = std::make_shared<Form>();  // Shared with the callback that reads it.
  add_node_options(*env, form->node);
  add_host_options(*env, form->host);
  add_carrier_options(*env, form->carriers);
  env->footer(kExamples);
  env->callback([form, &exit_status] { exit_status = print_exports(*form); });
}

}  // namespace verbatim::cli
