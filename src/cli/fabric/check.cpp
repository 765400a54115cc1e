#include "fabric/check/check.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "base/time.h"
#include "cli/command.h"
#include "cli/fabric/ask_service_levels.h"
#include "cli/fabric/commands.h"
#include "cli/fabric/status.h"
#include "fabric/check/read_snapshot.h"

namespace verbatim::cli {
namespace {

constexpr const char* kExamples =
    "Reads all tables that the subnet manager has programmed, and prints what is wrong\n"
    "with them, a line each: LIDs that hosts cannot reach, forwarding loops, credit\n"
    "loops (with the ports and lanes that wait for each other), unbalanced cables,\n"
    "P_Keys. Then what contradicts itself in the memory in which packets move, such as\n"
    "credits that are lost: that would be a bug of Verbatim. The exit status is 0 if\n"
    "nothing is wrong, and 1 otherwise.\n"
    "\n"
    "Credit loops are looked for among packets of the service levels that the subnet\n"
    "administrator names for the paths from each host, as it does to rdma_cm. Programs\n"
    "that do not ask it choose a level themselves, most of them 0: '--service-level 0'\n"
    "looks at all packets as if they had that one. Without a subnet administrator that\n"
    "answers, they are looked at at level 0, and a line on standard error says so.\n"
    "\n"
    "What to do:\n"
    "  a link is not active     put the cable in ('verbatim fabric link'); is there a\n"
    "                           subnet manager?\n"
    "  a LID is not reached     the log of the manager says how far it has come\n"
    "  a credit loop            its packets can wait for each other for ever: choose\n"
    "                           another routing engine, such as 'opensm -R updn'\n"
    "  unbalanced cables        one carries most of the data: another engine, too\n"
    "  P_Keys                   the partitions of the manager: 'opensm -P FILE'\n"
    "\n"
    "Examples:\n"
    "  verbatim fabric check\n"
    "  verbatim fabric check --service-level 0 --service-level 1";

struct Form {
  std::string name;
  std::vector<unsigned> service_levels;  // None: those of the paths.
};

/// Looks at a fabric several times, for its subnet manager may be at work.
class Looks {
 public:
  explicit Looks(const Form& form) : form_(form) {
    asked_.levels.of_other_ports = 0;
    for (const unsigned level : form.service_levels) {
      asked_.levels.of_other_ports |= static_cast<fabric::LevelSet>(1U << level);
    }
  }

  /// What is wrong at this moment.
  Result<std::vector<std::string>> look() {
    const auto tables = fabric_tables(form_.name);
    if (!tables) return std::unexpected(tables.error());
    auto snapshot = fabric::read_snapshot(*tables);
    if (!snapshot) return std::unexpected(snapshot.error());
    if (form_.service_levels.empty() && has_changed(*snapshot)) {
      asked_ = ask_service_levels(form_.name, *snapshot, deadline_);
    }
    last_ = std::move(*snapshot);
    return fabric::check(last_, asked_.levels);
  }

  const std::vector<std::string>& remarks() const { return asked_.remarks; }

 private:
  /// The manager changes paths and tables at once.
  bool has_changed(const fabric::Snapshot& now) const {
    return now.nodes != last_.nodes || now.cables != last_.cables;
  }

  static constexpr TimeNs kAskingMax = 60 * kSecond;
  const Form& form_;
  const TimeNs deadline_ = monotonic_now() + kAskingMax;
  fabric::Snapshot last_;
  AskedServiceLevels asked_;
};

/// What is wrong at each of several looks: a program may also have lost its processor in the middle
/// of moving packets.
Result<std::vector<std::string>> find_lasting(Looks& looks) {
  constexpr int kLooks = 5;
  constexpr auto kBetweenLooks = std::chrono::milliseconds(200);
  auto lasting = looks.look();
  for (int look = 1; look < kLooks && lasting && !lasting->empty(); ++look) {
    std::this_thread::sleep_for(kBetweenLooks);
    const auto again = looks.look();
    if (!again) return again;
    std::erase_if(*lasting, [&](const std::string& finding) {
      return std::ranges::find(*again, finding) == again->end();
    });
  }
  return lasting;
}

int check_fabric(const Form& form) {
  Looks looks(form);
  const auto findings = find_lasting(looks);
  if (!findings) {
    fmt::print(stderr, "verbatim fabric check: {}\n", findings.error().text);
    return kExitFailure;
  }
  for (const std::string& remark : looks.remarks()) {
    fmt::print(stderr, "verbatim fabric check: {}\n", remark);
  }
  for (const std::string& finding : *findings) fmt::print("{}\n", finding);
  return findings->empty() ? 0 : kExitFailure;
}

}  // namespace

void add_fabric_check(CLI::App& fabric, int& exit_status) {
  auto* check = fabric.add_subcommand("check", "Check what the subnet manager has programmed");
  auto form = std::make_shared<Form>();  // Lives as long as the callback that reads it.
  add_name_option(*check, form->name);
  check
      ->add_option("--service-level", form->service_levels,
                   "Of all packets; default: that of their paths")
      ->type_name("NUMBER")
      ->check(CLI::Range(0, 15));
  check->footer(kExamples);
  check->callback([form, &exit_status] { exit_status = check_fabric(*form); });
}

}  // namespace verbatim::cli
