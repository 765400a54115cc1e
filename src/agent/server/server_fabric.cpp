#include "agent/server/server.h"
#include "base/log.h"

/// The node of a host of an InfiniBand fabric: it lives as long as the fabric's daemon.
namespace verbatim::agent {

Result<void> Server::open_fabric(const std::string& fabric, const std::string& host) {
  auto opened = FabricHost::open(fabric, host);
  if (!opened) return std::unexpected(opened.error());
  fabric_ = std::move(*opened);
  // Else it is watched when there is something to watch it with: see `listen`.
  return events_ ? watch(fabric_->fd()) : Result<void>();
}

/// If the node is a host. Its programs are of one run of the fabric: those of an earlier run hold
/// locks in another file, and hold up nobody.
Result<void> Server::open_own_fabric() {
  const auto wanted = wanted_node();
  if (!wanted) return std::unexpected(wanted.error());
  const config::NodeConfig& node = wanted->config;
  if (node.host.empty()) return {};
  if (auto opened = open_fabric(node.fabric, node.host); !opened) return opened;
  slot_locks_ = SlotLocks(fabric_->programs());
  return {};
}

/// For programs of an earlier agent. Another run of the fabric is another fabric: their queue
/// pairs are on no port of it.
Result<void> Server::reopen_fabric(const Node& node) {
  if (!node.is_infiniband()) return {};
  const std::string fabric(node.fabric.view());
  if (auto opened = open_fabric(fabric, fmt::format("{:#x}", node.guid)); !opened) return opened;
  if (fabric_->fabric_id() == node.fabric_id) return {};
  return refuse(ESTALE, fmt::format("fabric '{}' has ended; another one has its name", fabric));
}

void Server::on_fabric_change() {
  if (const auto followed = fabric_->follow(); !followed) {
    log(LogLevel::info, "node '{}' ends with its fabric: {}", options_.node, followed.error().text);
    stopping_ = true;
    return;
  }
  look_at_port();
}

}  // namespace verbatim::agent
