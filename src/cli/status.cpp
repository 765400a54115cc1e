#include <cerrno>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "agent/client/client.h"
#include "cli/command.h"
#include "cli/text/status_text.h"

namespace verbatim::cli {
namespace {

constexpr const char* kExamples =
    "Shown are the nodes of yours that run in this network namespace. Counters are\n"
    "those of the programs that are open now.\n"
    "\n"
    "Examples:\n"
    "  verbatim status\n"
    "  watch -n 1 verbatim status\n"
    "  verbatim status --json | jq '.[].programs[].counters'";

using Json = nlohmann::ordered_json;

/// Returns an array with the status of each running node.
Result<Json> all_statuses() {
  const auto names = agent::list_nodes();
  if (!names) return std::unexpected(names.error());
  Json nodes = Json::array();
  for (const auto& name : *names) {
    const auto status = agent::request_status(name);
    if (!status) {
      if (status.error().code == ENOENT) continue;  // It has ended meanwhile.
      return std::unexpected(status.error());
    }
    auto node = Json::parse(*status, nullptr, /*allow_exceptions=*/false);
    if (node.is_discarded()) {
      return refuse(EPROTO, fmt::format("the agent of node {} answers nonsense: is it of another "
                                        "release? End its programs and try again",
                                        name));
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
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
  const auto nodes = all_statuses();
  if (!nodes) {
    fmt::print(stderr, "verbatim status: {}\n", nodes.error().text);
    return kExitFailure;
  }
  if (as_json) {
    fmt::print("{}\n", nodes->dump(2));
    return 0;
  }
  if (nodes->empty()) {
    fmt::print(
        "No node runs. A node runs while a program is open on it: "
        "'verbatim run -- COMMAND' starts one.\n");
    return 0;
  }
  std::string text;
  for (const auto& node : *nodes) text += (text.empty() ? "" : "\n") + status_text(node);
  fmt::print("{}", text);
  return 0;
}

}  // namespace

void add_status(CLI::App& app, int& exit_status) {
  auto* status = app.add_subcommand("status", "Show nodes, programs, queue pairs and counters");
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
