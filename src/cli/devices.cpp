#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "agent/client/client.h"
#include "cli/command.h"
#include "cli/text/table.h"

namespace verbatim::cli {
namespace {

constexpr const char* kExamples =
    "Shown are the nodes of yours that run in this network namespace, and the node\n"
    "that a program started from here would belong to.\n"
    "\n"
    "Programs that ask for a GID index (-g of ibv_rc_pingpong, -x of ib_write_bw):\n"
    "take 1, the node's first IPv4 address.\n"
    "\n"
    "Examples:\n"
    "  verbatim devices\n"
    "  VERBATIM_NODE=a VERBATIM_ADDRESS=127.0.0.2 verbatim devices";

std::string guid_text(std::uint64_t guid) {
  return fmt::format("{:04x}:{:04x}:{:04x}:{:04x}", guid >> 48, guid >> 32 & 0xffff,
                     guid >> 16 & 0xffff, guid & 0xffff);
}

/// Returns the default node first (starting it if it does not run), then the others that run.
Result<std::vector<agent::Node>> all_nodes() {
  const auto options = agent::AgentOptions::from_environment();
  if (!options) return std::unexpected(options.error());
  auto names = agent::list_nodes();
  if (!names) return std::unexpected(names.error());
  const auto own = agent::start_node(*options);
  std::vector<agent::Node> nodes;
  if (own) {
    nodes.push_back(*own);
    std::erase(*names, own->name);
  } else if (names->empty()) {
    return std::unexpected(own.error());
  } else {
    fmt::print(stderr, "verbatim: warn: node {} cannot start: {}\n", options->node,
               own.error().text);
  }
  for (const auto& name : *names) {
    // A node may end between the listing and the request.
    if (auto node = agent::node_description(name)) nodes.push_back(*std::move(node));
  }
  return nodes;
}

/// The network interface, or the fabric.
std::string place_of(const agent::Node& node) {
  return node.is_infiniband() ? fmt::format("fabric {}", node.fabric) : std::string(node.interface);
}

int print_devices() {
  const auto nodes = all_nodes();
  if (!nodes) {
    fmt::print(stderr, "verbatim devices: {}\n", nodes.error().text);
    return kExitFailure;
  }
  Table devices({"device", "node", "node GUID", "state", "interface", "MTU"});
  Table gids({"node", "index", "GID", "type"});
  for (const auto& node : *nodes) {
    devices.add({std::string(node.device), std::string(node.name), guid_text(node.guid),
                 node.network.is_active ? "active" : "down", place_of(node),
                 std::to_string(bytes_of(agent::active_mtu(node)))});
    if (node.is_iwarp()) {
      gids.add({std::string(node.name), "0", gid_text(rnic_gid(node.mac)), "iWARP"});
      continue;
    }
    if (node.is_infiniband()) {
      int number = 0;
      for (const auto& port : node.network.infiniband) {
        gids.add({std::string(node.name), "0", gid_text(gid_of(port)),
                  fmt::format("InfiniBand, port {}", ++number)});
      }
      continue;
    }
    for (std::size_t index = 0; index < node.gids.size(); ++index) {
      if (!node.is_valid(node.gids[index])) continue;
      gids.add({std::string(node.name), std::to_string(index), gid_text(node.gids[index].gid),
                std::string(name_of(roce_version(node.gids[index].address)))});
    }
  }
  fmt::print("{}\n{}", devices.text(), gids.text());
  return 0;
}

}  // namespace

void add_devices(CLI::App& app, int& exit_status) {
  auto* devices = app.add_subcommand("devices", "List the RDMA devices of the emulated hosts");
  devices->footer(kExamples);
  devices->callback([&exit_status] { exit_status = print_devices(); });
}

}  // namespace verbatim::cli
