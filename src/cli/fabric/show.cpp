#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/time.h"
#include "cli/capture/output.h"
#include "cli/command.h"
#include "cli/fabric/commands.h"
#include "cli/fabric/picture.h"
#include "cli/fabric/status.h"
#include "cli/text/quantity.h"
#include "cli/text/table.h"
#include "fabric/protocol/fabric_folder.h"

namespace verbatim::cli {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  verbatim fabric show\n"
    "  verbatim fabric show --svg fabric.svg     # open it with a browser\n"
    "  verbatim fabric show --json | jq '.links[] | select(.a.state != \"active\")'";

using Json = nlohmann::ordered_json;

std::string text_of(const Json& value) { return value.get<std::string>(); }
std::string number_of(const Json& value) { return std::to_string(value.get<unsigned>()); }

/// The LIDs of a node's ports: "5", or "5 6" of two ports; "-" where no manager has given one.
std::string lids_of(const Json& node) {
  std::string lids;
  for (const auto& port : node.at("ports")) {
    const unsigned lid = port.at("lid").get<unsigned>();
    if (!lids.empty()) lids += ' ';
    lids += lid == 0 ? "-" : std::to_string(lid);
  }
  return lids;
}

/// Of a host's first port; switches have none.
std::string address_of(const Json& node) { return node.value("address", "-"); }

/// The state of both ends, or of each if they differ.
std::string state_of(const Json& link) {
  const std::string a = text_of(link.at("a").at("state"));
  const std::string b = text_of(link.at("b").at("state"));
  return a == b ? a : a + ", " + b;
}

/// "4xHDR", or "4xHDR, errors 1e-09".
std::string rate_of(const Json& link) {
  const auto errors = link.at("bit_error_rate").get<double>();
  if (errors == 0) return text_of(link.at("rate"));
  return fmt::format("{}, errors {:g}", text_of(link.at("rate")), errors);
}

/// "HCA-1", "mlx5_0": what an adapter is called on its machine.
bool is_of_adapter(std::string_view word) {
  const bool is_known = word.starts_with("HCA-") || word.starts_with("mlx") ||
                        word.starts_with("qib") || word.starts_with("hfi");
  return is_known && word.back() >= '0' && word.back() <= '9';
}

/// A recorded fabric may have several adapters of a machine: "node7 HCA-1", "node7 HCA-2".
void print_machines(const Json& status) {
  std::map<std::string, std::vector<std::string>> machines;
  for (const auto& node : status.at("nodes")) {
    const std::string name = text_of(node.at("name"));
    const std::size_t space = name.rfind(' ');
    if (text_of(node.at("kind")) != "host" || space == std::string::npos) continue;
    const std::string adapter = name.substr(space + 1);
    if (is_of_adapter(adapter)) machines[name.substr(0, space)].push_back(adapter);
  }
  std::erase_if(machines, [](const auto& machine) { return machine.second.size() < 2; });
  if (machines.empty()) return;
  fmt::print("\n{} with several adapters, each of which is a host here:\n",
             counted(machines.size(), "machine"));
  for (auto& [machine, adapters] : machines) {
    std::ranges::sort(adapters);
    fmt::print("  {}: {}\n", machine, fmt::join(adapters, " "));
  }
}

void print_tables(const Json& status) {
  Table nodes({"node", "kind", "GUID", "ports", "LID", "address"});
  for (const auto& node : status.at("nodes")) {
    nodes.add({text_of(node.at("name")), text_of(node.at("kind")), text_of(node.at("guid")),
               number_of(node.at("physical_ports")), lids_of(node), address_of(node)});
  }
  Table links({"node", "port", "to", "port", "rate", "state"});
  for (const auto& link : status.at("links")) {
    const auto& a = link.at("a");
    const auto& b = link.at("b");
    links.add({text_of(a.at("node")), number_of(a.at("port")), text_of(b.at("node")),
               number_of(b.at("port")), rate_of(link), state_of(link)});
  }
  fmt::print("{}\n{}", nodes.text(), links.text());
  print_machines(status);
  const Json trunks_shown = status.value("trunks", Json::array());
  if (trunks_shown.empty()) return;
  Table trunks({"trunk", "port", "rate", "state", "local", "peer", "repeated"});
  for (const auto& trunk : trunks_shown) {
    const std::string peer = text_of(trunk.at("peer"));
    trunks.add({text_of(trunk.at("node")), number_of(trunk.at("port")), text_of(trunk.at("rate")),
                text_of(trunk.at("state")), text_of(trunk.at("local")), peer.empty() ? "-" : peer,
                number_of(trunk.at("repeated"))});
  }
  fmt::print("\n{}", trunks.text());
  for (const auto& trunk : trunks_shown) {
    const std::string fault = trunk.value("fault", "");
    if (fault.empty()) continue;
    fmt::print("\n{}/{} does not come up: {}\n", text_of(trunk.at("node")),
               number_of(trunk.at("port")), fault);
  }
}

int print_status(const std::string& name, bool as_json) {
  const auto status = fabric_status(name);
  if (!status) {
    fmt::print(stderr, "verbatim fabric show: {}\n", status.error().text);
    return kExitFailure;
  }
  if (as_json) {
    fmt::print("{}\n", status->dump(2));
  } else {
    print_tables(*status);
  }
  return 0;
}

/// The load of links is that of one second.
int draw(const std::string& name, const std::string& path) {
  const auto fail = [](const Error& error) {
    fmt::print(stderr, "verbatim fabric show: {}\n", error.text);
    return kExitFailure;
  };
  const TimeNs begin = monotonic_now();
  const auto before = fabric_status(name);
  if (!before) return fail(before.error());
  std::this_thread::sleep_for(std::chrono::seconds(1));
  const auto after = fabric_status(name);
  if (!after) return fail(after.error());
  const std::string text =
      fabric::drawing::svg_of(picture_of(name, *before, *after, elapsed(begin, monotonic_now())));
  auto output = Output::open(path);
  if (!output) return fail(output.error());
  const auto written = output->write(std::as_bytes(std::span(text)), -1);
  return written ? 0 : fail(written.error());
}

/// A line each: for completion in shells, and for scripts.
int print_names() {
  const auto names = fabric::protocol::fabrics();
  if (!names) {
    fmt::print(stderr, "verbatim fabric show: {}\n", names.error().text);
    return kExitFailure;
  }
  for (const auto& name : *names) fmt::print("{}\n", name);
  return 0;
}

}  // namespace

void add_fabric_show(CLI::App& fabric, int& exit_status) {
  auto* show = fabric.add_subcommand("show", "Show a fabric's nodes and links, and their states");
  struct Form {
    std::string name;
    bool as_json = false;
    bool names_only = false;
    std::string svg;
  };
  auto form = std::make_shared<Form>();  // Lives as long as the callback that reads it.
  add_name_option(*show, form->name);
  auto* json = show->add_flag("--json", form->as_json, "Print everything as JSON");
  show->add_flag("--names", form->names_only, "Print the names of the fabrics alone")
      ->excludes(json);
  show->add_option("--svg", form->svg,
                   "Draw the fabric, with the load of its links, into this file")
      ->type_name("FILE")
      ->excludes(json);
  show->footer(kExamples);
  show->callback([form, &exit_status] {
    exit_status = form->names_only    ? print_names()
                  : form->svg.empty() ? print_status(form->name, form->as_json)
                                      : draw(form->name, form->svg);
  });
}

}  // namespace verbatim::cli
