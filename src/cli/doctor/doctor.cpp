#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/doctor/checks.h"
#include "cli/doctor/facts/program.h"
#include "cli/doctor/report.h"
#include "cli/environment.h"
#include "cli/fabric/host.h"
#include "cli/help.h"

namespace verbatim::cli {
namespace {

using doctor::ReportStyle;
using doctor::Section;

constexpr const char* kExamples =
    "Each line says ok, note (it works, but perhaps not as you expect) or fault, and\n"
    "below it what to do. The exit status is 1 if there is a fault, else 0.\n"
    "A node that a program started here would belong to is started for a moment; the\n"
    "program that is asked about is not.\n"
    "\n"
    "Examples:\n"
    "  verbatim doctor                      # this machine\n"
    "  verbatim doctor -- ib_write_bw       # this machine and that program\n"
    "  verbatim doctor --node a --address 127.0.0.2\n"
    "  verbatim doctor --json | jq '.findings[] | select(.verdict == \"fault\")'";

struct Wishes {
  NodeChoice choice;
  HostChoice host;
  bool as_json = false;
};

std::map<std::string, std::string> environment() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    variables.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return variables;
}

ReportStyle style_of_output() {
  if (isatty(STDOUT_FILENO) == 0) return {};
  winsize size{};
  ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
  return {.is_coloured = getenv("NO_COLOR") == nullptr, .width = size.ws_col};
}

int examine(const Wishes& wishes, const std::vector<std::string>& command) {
  auto variables = environment();
  // The same as in `verbatim run`; a refusal here is no fault of the machine.
  const auto own = own_variables_for(wishes.choice);
  if (!own && own.error().code == EINVAL) {
    fmt::print(stderr, "verbatim doctor: {}\n", own.error().text);
    return kExitUsage;
  }
  if (const auto entered = enter_host(wishes.host); !entered) {
    fmt::print(stderr, "verbatim doctor: {}\n", entered.error().text);
    return kExitUsage;
  }
  if (own) {
    for (const auto& [name, value] : *own) {
      setenv(name.c_str(), value.c_str(), 1);
      if (name.starts_with("VERBATIM_") && name != "VERBATIM_VIEW") variables[name] = value;
    }
  }
  std::vector<Section> sections;
  const auto machine = doctor::read_machine(std::move(variables));
  sections.push_back({"this machine", doctor::check_machine(machine)});
  if (!command.empty()) {
    const auto program = doctor::read_program(command.front(), machine.installation.folder);
    sections.push_back({"program " + command.front(), doctor::check_program(program, machine)});
  }
  const bool has_fault = doctor::count(sections, doctor::Verdict::fault) > 0;
  fmt::print("{}", wishes.as_json ? doctor::report_json(sections)
                                  : doctor::report_text(sections, style_of_output()));
  return has_fault ? kExitFailure : 0;
}

}  // namespace

void add_doctor(CLI::App& app, const std::vector<std::string>& command, int& exit_status) {
  auto* doctor = app.add_subcommand("doctor", "Tell what is wrong with this machine or a program");
  auto wishes = std::make_shared<Wishes>();  // Shared with the callback that reads it.
  add_node_options(*doctor, wishes->choice);
  add_host_options(*doctor, wishes->host);
  doctor->add_flag("--json", wishes->as_json, "Print everything as JSON");
  doctor->prefix_command();
  doctor->footer(kExamples);
  doctor->callback([doctor, wishes, &command, &exit_status] {
    const auto words = command_line_of(*doctor, command);
    if (!words) fmt::print(stderr, "{}", words.error().text);
    exit_status = words ? examine(*wishes, *words) : kExitUsage;
  });
}

}  // namespace verbatim::cli
