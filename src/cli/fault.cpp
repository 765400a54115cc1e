#include "cli/fault.h"

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <sys/random.h>

#include "agent/client/client.h"
#include "cli/command.h"
#include "cli/environment.h"
#include "cli/text/quantity.h"

namespace verbatim::cli {
namespace {

constexpr const char* kExamples =
    "Faults in the packets of the node's programs, those that run and those\n"
    "that start later, until the last one has ended. They replace 'verbatim run\n"
    "--fault', which takes the same words (man 1 verbatim). The same seed gives the\n"
    "same faults to the same packets.\n"
    "\n"
    "On the direct path, between programs of one machine, there are no packets: start\n"
    "them with '--path wire'.\n"
    "\n"
    "Examples:\n"
    "  verbatim fault a loss=1%,delay=100us..1ms\n"
    "  verbatim fault a loss=100%,peer=127.0.0.3      # a black hole\n"
    "  verbatim fault a loss=1%,direction=both        # of what they receive, too\n"
    "  verbatim fault a show\n"
    "  verbatim fault a off";

int fail(const Error& error) {
  fmt::print(stderr, "verbatim fault: {}\n", error.text);
  return error.code == EINVAL ? kExitUsage : kExitFailure;
}

/// `words`: what is wanted, with the node before it or not.
int run(const std::vector<std::string>& words) {
  NodeChoice choice;
  if (words.size() > 1) choice.node = words.front();
  const std::string& wanted = words.back();
  std::string text;
  if (wanted != "show") {
    const auto plan = plan_with_seed(wanted);
    if (!plan) return fail(plan.error());
    text = plan->text();
  }
  const auto set = agent::set_faults(node_of(choice), text);
  if (!set) return fail(set.error());
  fmt::print("node '{}', {}: {}\n", node_of(choice), counted(set->programs, "program"),
             set->plan.empty() ? "no faults but those of 'verbatim run --fault'" : set->plan);
  return 0;
}

}  // namespace

Result<link::FaultPlan> plan_with_seed(std::string_view text) {
  auto plan = link::FaultPlan::parse(text);
  if (plan && !plan->is_off() && !plan->seed) {
    plan->seed = 0;
    if (getrandom(&*plan->seed, sizeof(std::uint32_t), 0) < 0) return refuse_errno("getrandom");
  }
  return plan;
}

void add_fault(CLI::App& app, int& exit_status) {
  auto* fault = app.add_subcommand("fault", "Inject faults into packets of programs that run");
  auto words = std::make_shared<std::vector<std::string>>();  // Lives as long as the callback.
  fault->add_option("WORDS", *words, "NODE, if not the default; then FAULTS, off or show")
      ->type_name("")
      ->required()
      ->expected(1, 2);
  fault->footer(kExamples);
  fault->callback([words, &exit_status] { exit_status = run(*words); });
}

}  // namespace verbatim::cli
