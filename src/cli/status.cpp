#include <cerrno>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "agent/client.h"
#include "cli/command.h"
#include "cli/status_text.h"

namespace verbatim::cli {
namespace {

constexpr const char* kExamples =
    "Shown are the nodes of yours that run in this network namespace. Counters are those of the\n"
    "programs that are open now.\n"
    "\n"
    "Examples:\n"
    "  verbatim status\n"
    "  watch -n 1 verbatim status\n"
    "  verbatim status --json | jq '.[].programs[].queue_pairs[].counters.retransmissions'";

using Json = nlohmann::ordered_json;

/// The status of each node that runs, as an array.
Result<Json> all_statuses() {
  const auto names = agent::list_nodes();
  if (!names) return std::unexpected(names.error());
  Json nodes = Json::array();
  for (const auto& name : *names) {
    const auto status = agent::request_status(name);
    if (!status) {
      if (status.error().code == ENOENT) continue;  // It has left meanwhile.
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
  auto as_json = std::make_shared<bool>(false);  // Lives as long as the callback that reads it.
  status->add_flag("--json", *as_json, "Print everything as JSON");
  status->footer(kExamples);
  status->callback([as_json, &exit_status] { exit_status = print_status(*as_json); });
}

}  // namespace verbatim::cli
