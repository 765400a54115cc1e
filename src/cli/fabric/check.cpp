#include "fabric/check/check.h"

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/fabric/commands.h"
#include "cli/fabric/status.h"
#include "fabric/check/read_snapshot.h"

namespace verbatim::cli {
namespace {

constexpr const char* kExamples =
    "Reads all tables that the subnet manager has programmed, and prints what is wrong\n"
    "with them, a line each: LIDs that hosts cannot reach, forwarding loops, credit\n"
    "loops (with the ports and lanes that wait for each other), unbalanced cables,\n"
    "P_Keys. The exit status is 0 if nothing is wrong, and 1 otherwise.\n"
    "\n"
    "Which service level a packet has, programs and the manager decide: credit loops\n"
    "are looked for among packets of those that are named.\n"
    "\n"
    "Examples:\n"
    "  verbatim fabric check\n"
    "  verbatim fabric check --service-level 0 --service-level 1";

struct Form {
  std::string name;
  std::vector<unsigned> service_levels{0};
};

int check_fabric(const Form& form) {
  const auto tables = fabric_tables(form.name);
  const auto snapshot = tables ? fabric::read_snapshot(*tables) : std::unexpected(tables.error());
  if (!snapshot) {
    fmt::print(stderr, "verbatim fabric check: {}\n", snapshot.error().text);
    return kExitFailure;
  }
  const auto findings = fabric::check(*snapshot, form.service_levels);
  for (const std::string& finding : findings) fmt::print("{}\n", finding);
  return findings.empty() ? 0 : kExitFailure;
}

}  // namespace

void add_fabric_check(CLI::App& fabric, int& exit_status) {
  auto* check = fabric.add_subcommand("check", "Check what the subnet manager has programmed");
  auto form = std::make_shared<Form>();  // Lives as long as the callback that reads it.
  add_name_option(*check, form->name);
  check->add_option("--service-level", form->service_levels, "Of packets; default: 0")
      ->type_name("NUMBER")
      ->check(CLI::Range(0, 15));
  check->footer(kExamples);
  check->callback([form, &exit_status] { exit_status = check_fabric(*form); });
}

}  // namespace verbatim::cli
