#include <cerrno>
#include <memory>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "agent/client/client.h"
#include "cli/command.h"
#include "cli/text/status_text.h"
#include "service/control.h"

namespace verbatim::cli {
namespace {

constexpr const char* kExamples =
    "Shown are the nodes of yours that run in this network namespace,\n"
    "and the services of upper-layer protocols. Counters are those of the programs\n"
    "that are open now.\n"
    "\n"
    "Examples:\n"
    "  verbatim status\n"
    "  watch -n 1 verbatim status\n"
    "  verbatim status --json | jq '.[].programs[]?.counters'";

using Json = nlohmann::ordered_json;

/// An agent that is stopped, or works on a machine that is very busy, does not hold up the others.
constexpr TimeNs kAgentPatience = 5 * kSecond;
constexpr TimeNs kServicePatience = 200 * kMillisecond;  // Of all services together.

/// Nothing if the node has ended meanwhile. A node whose agent does not answer has an "error".
std::optional<Json> node_status(const std::string& name) {
  const auto status = agent::request_status(name, kAgentPatience);
  if (!status && status.error().code == ENOENT) return std::nullopt;
  if (!status) return Json{{"node", name}, {"error", status.error().text}};
  auto node = Json::parse(*status, nullptr, /*allow_exceptions=*/false);
  if (!node.is_discarded()) return node;
  return Json{{"node", name},
              {"error",
               "its agent answers nonsense: is it of another release? End its programs "
               "and try again"}};
}

/// Appends what runs beside the nodes: the daemons of upper-layer protocols.
void add_services(Json& all) {
  const auto names = service::services();
  const auto answers = service::ask(names, {{"ask", "status"}}, kServicePatience);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto& answer = answers[i];
    if (!answer && answer.error().code == ENOENT) continue;  // It was killed.
    Json one{{"service", names[i].kind}, {"name", names[i].name}};
    if (answer) one.update(Json(*answer));
    if (!answer) one["error"] = answer.error().text;
    one.erase("kind");
    all.push_back(std::move(one));
  }
}

/// Returns an array with the status of each node and service that runs.
Result<Json> all_statuses() {
  const auto names = agent::list_nodes();
  if (!names) return std::unexpected(names.error());
  Json all = Json::array();
  for (const auto& name : *names) {
    if (auto node = node_status(name)) all.push_back(std::move(*node));
  }
  add_services(all);
  return all;
}

/// Prints one name per line, for shell completion and scripts.
int print_names() {
  const auto names = agent::list_nodes();
  if (!names) {
    fmt::print(stderr, "verbatim status: {}\n", names.error().text);
    return kExitFailure;
  }
  for (const auto& name : *names) fmt::print("{}\n", name);
  return 0;
}

int print_status(bool as_json) {
  const auto all = all_statuses();
  if (!all) {
    fmt::print(stderr, "verbatim status: {}\n", all.error().text);
    return kExitFailure;
  }
  if (as_json) {
    fmt::print("{}\n", all->dump(2));
    return 0;
  }
  if (all->empty()) {
    fmt::print(
        "No node runs. A node runs while a program is open on it: "
        "'verbatim run -- COMMAND' starts one.\n");
    return 0;
  }
  std::string text;
  for (const auto& one : *all) text += (text.empty() ? "" : "\n") + status_text(one);
  fmt::print("{}", text);
  return 0;
}

}  // namespace

void add_status(CLI::App& app, int& exit_status) {
  auto* status = app.add_subcommand("status", "Show nodes, programs, services and their counters");
  struct Form {
    bool as_json = false;
    bool names_only = false;
  };
  auto form = std::make_shared<Form>();  // Shared with the callback that reads it.
  auto* json = status->add_flag("--json", form->as_json, "Print everything as JSON");
  status->add_flag("--names", form->names_only, "Print the names of the nodes alone")
      ->excludes(json);
  status->footer(kExamples);
  status->callback([form, &exit_status] {
    exit_status = form->names_only ? print_names() : print_status(form->as_json);
  });
}

}  // namespace verbatim::cli
