#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/unique_fd.h"
#include "cli/cluster/commands.h"
#include "cli/cluster/description.h"
#include "cli/cluster/namespaces.h"
#include "cli/command.h"
#include "cli/environment.h"
#include "cli/read_all.h"
#include "cli/text/table.h"

namespace verbatim::cli::cluster {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kExamples =
    "Packets between nodes are those of connected queue pairs that are open now.\n"
    "\n"
    "Examples:\n"
    "  verbatim cluster show\n"
    "  verbatim cluster show --hostfile > hosts";

/// What `verbatim status --json` prints on the node.
Result<Json> status_of(const Node& node, const std::string& program) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return refuse_errno("pipe");
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  const pid_t child = fork();
  if (child < 0) return refuse_errno("fork");
  if (child == 0) {
    if (const auto entered = enter(node); !entered) {
      fmt::print(stderr, "verbatim cluster show: {}\n", entered.error().text);
      _exit(1);
    }
    dup2(writing.get(), STDOUT_FILENO);
    execl(program.c_str(), "verbatim", "status", "--json", nullptr);
    _exit(1);
  }
  writing.reset();
  const std::string text = read_all(reading.get());
  waitpid(child, nullptr, 0);
  auto json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) {
    return refuse(EPROTO, fmt::format("node {} does not tell its status", node.name));
  }
  return json;
}

/// The status of each node, after its place in the cluster.
Result<Json> all_statuses(const Description& description) {
  const auto folder = own_folder();
  if (!folder) return std::unexpected(folder.error());
  Json all = Json::array();
  for (const Node& node : description.nodes) {
    auto status = status_of(node, *folder + "/verbatim");
    if (!status) return std::unexpected(status.error());
    all.push_back({{"node", node.name},
                   {"address", node.address},
                   {"host", node.host},
                   {"status", std::move(*status)}});
  }
  return all;
}

using Packets = std::map<std::string, std::uint64_t>;  // By the peer's GID, or LID.

struct Traffic {
  std::size_t programs = 0;
  std::vector<std::string> names;  // Its own GIDs and LIDs.
  Packets sent;
};

std::string lid_name(const Json& object, const char* member) {
  return fmt::format("LID {}", object.value(member, 0));
}

Traffic traffic_of(const Json& status) {
  Traffic traffic;
  for (const Json& device : status) {
    if (device.contains("lid")) traffic.names.push_back(lid_name(device, "lid"));
    for (const auto& entry : device.value("gids", Json::array())) {
      traffic.names.push_back(entry.value("gid", ""));
    }
    for (const auto& address : device.value("addresses", Json::array())) {
      traffic.names.push_back("::ffff:" + address.get<std::string>());
    }
    for (const Json& program : device.value("programs", Json::array())) {
      ++traffic.programs;
      for (const Json& queue_pair : program.value("queue_pairs", Json::array())) {
        const bool has_lid = queue_pair.value("dest_gid", "") == "::";
        const auto peer =
            has_lid ? lid_name(queue_pair, "dest_lid") : queue_pair.value("dest_gid", "");
        traffic.sent[peer] +=
            queue_pair.value("counters", Json::object()).value("packets_sent", 0ULL);
      }
    }
  }
  return traffic;
}

/// How many packets went from one node to another.
std::uint64_t packets_between(const Traffic& from, const Traffic& to) {
  std::uint64_t sum = 0;
  for (const std::string& name : to.names) {
    const auto found = from.sent.find(name);
    if (found != from.sent.end()) sum += found->second;
  }
  return sum;
}

std::string text_of(const Json& all) {
  std::vector<Traffic> traffic;
  std::vector<std::string> header{"node", "address", "host", "programs"};
  for (const Json& node : all) {
    header.push_back((traffic.empty() ? "packets to " : "") + node.at("node").get<std::string>());
    traffic.push_back(traffic_of(node.at("status")));
  }
  Table table(header);
  for (std::size_t from = 0; from < all.size(); ++from) {
    const std::string host = all[from].at("host");
    std::vector<std::string> row{all[from].at("node"), all[from].at("address"),
                                 host.empty() ? "-" : host, std::to_string(traffic[from].programs)};
    for (std::size_t to = 0; to < all.size(); ++to) {
      const std::uint64_t packets = packets_between(traffic[from], traffic[to]);
      row.push_back(from == to && packets == 0 ? "-" : std::to_string(packets));
    }
    table.add(std::move(row));
  }
  return table.text();
}

int show(const std::string& name, bool as_json, bool as_hostfile) {
  const auto description = description_of(name);
  if (!description) {
    fmt::print(stderr, "verbatim cluster show: {}\n", description.error().text);
    return kExitFailure;
  }
  if (as_hostfile) {
    for (const Node& node : description->nodes) {
      fmt::print("{} slots={}\n", node.name, description->slots);
    }
    return 0;
  }
  const auto all = all_statuses(*description);
  if (!all) {
    fmt::print(stderr, "verbatim cluster show: {}\n", all.error().text);
    return kExitFailure;
  }
  fmt::print("{}", as_json ? all->dump(2) + "\n" : text_of(*all));
  return 0;
}

}  // namespace

void add_show(CLI::App& cluster, int& exit_status) {
  auto* command = cluster.add_subcommand("show", "Show nodes, programs and packets between them");
  struct Form {
    std::string name = "default";
    bool as_json = false, as_hostfile = false;
  };
  auto form = std::make_shared<Form>();
  command->add_option("--name", form->name, "The cluster's name");
  auto* json = command->add_flag("--json", form->as_json, "Print the status of each node as JSON");
  command->add_flag("--hostfile", form->as_hostfile, "Print a hostfile for mpirun")->excludes(json);
  command->footer(kExamples);
  command->callback(
      [form, &exit_status] { exit_status = show(form->name, form->as_json, form->as_hostfile); });
}

}  // namespace verbatim::cli::cluster
