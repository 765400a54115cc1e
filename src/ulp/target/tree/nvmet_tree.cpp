#include "ulp/target/tree/nvmet_tree.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "ulp/target/kept_reservations.h"
#include "ulp/target_tree/parsers.h"

namespace verbatim::ulp::target {
namespace {

using target_tree::Node;

constexpr std::uint32_t kBlockBytes = 4096;  // Of a file, as Linux's target has them.

bool is_namespace(const Node& directory) { return directory.find("device_path") >= 0; }
bool is_port(const Node& directory) { return directory.find("addr_traddr") >= 0; }

/// EINVAL.
Result<SocketAddress> address_of(const Node& port) {
  const auto service = target_tree::number_of(text_of(port, "addr_trsvcid"));
  if (text_of(port, "addr_trtype") != "rdma" || !service || *service > 65535)
    return refuse(EINVAL, "addr_trtype is rdma, addr_trsvcid a number");
  return SocketAddress::parse(text_of(port, "addr_traddr"), static_cast<std::uint16_t>(*service));
}

nvmeof::Uuid uuid_of(std::string text) {
  std::erase(text, '-');
  nvmeof::Uuid uuid{};
  for (std::size_t i = 0; i < uuid.size() && 2 * i + 2 <= text.size(); ++i) {
    unsigned byte = 0;
    std::from_chars(&text[2 * i], &text[2 * i] + 2, byte, 16);
    uuid[i] = static_cast<std::byte>(byte);
  }
  return uuid;
}

std::map<std::uint32_t, nvmeof::AccessState> access_of(const Node& port) {
  using enum nvmeof::AccessState;
  constexpr std::pair<std::string_view, nvmeof::AccessState> kStates[] = {
      {"optimized", optimized},
      {"non-optimized", non_optimized},
      {"inaccessible", inaccessible},
      {"persistent-loss", persistent_loss},
      {"change", change}};
  std::map<std::uint32_t, nvmeof::AccessState> groups;
  for (const auto& group : port.child("ana_groups")->children) {
    const std::string word = text_of(*group, "ana_state");
    const auto state = std::ranges::find(kStates, word, [](const auto& one) { return one.first; });
    if (state != std::end(kStates))
      groups[target_tree::number_of(group->name).value_or(1)] = state->second;
  }
  return groups;
}

}  // namespace

int NvmetTree::on_write(const Node& directory, std::string_view attribute, std::string_view value) {
  if (!is_namespace(directory) || attribute != "enable") return 0;
  if (value != "1") return devices_.close(directory), 0;
  return devices_.open_file(directory, text_of(directory, "device_path"),
                            {.block_bytes = kBlockBytes, .may_create = false});
}

int NvmetTree::on_remove(const Node& directory) {
  if (is_namespace(directory)) devices_.close(directory);
  return 0;
}

int NvmetTree::on_link(const Node& directory, const Node& /*target*/) {
  const Node& port = *directory.parent;
  return is_port(port) && directory.children.empty() ? listen(port) : 0;
}

int NvmetTree::listen(const Node& port) {
  const auto address = address_of(port);
  const auto listener =
      address ? driver_.listen(rdma::IpService{*address}) : std::unexpected(address.error());
  if (!listener) {
    log(LogLevel::info, "nvmet port {}: {}", port.name, listener.error().text);
    return listener.error().code;
  }
  Port& made = ports_[port.name];
  made = {address->text(), *listener,
          std::make_unique<nvmeof::Portal>(target_, *address, receives_)};
  runner_.serve(*listener, *made.portal, driver_);
  return 0;
}

void NvmetTree::add_places(std::vector<std::string>& places) const {
  for (const auto& [name, port] : ports_) places.push_back(port.place);
}

int NvmetTree::on_unlink(const Node& directory, const Node& /*target*/) {
  const auto found = ports_.find(directory.parent->name);
  if (!is_port(*directory.parent) || directory.children.size() > 1 || found == ports_.end())
    return 0;
  runner_.stop_serving(found->second.listener);
  driver_.unlisten(found->second.listener);
  old_portals_.push_back(std::move(found->second.portal));
  ports_.erase(found);
  return 0;
}

void NvmetTree::settle(const Node* top, std::string_view /*changed*/) {
  const Node& all = *top->child("subsystems");
  std::erase_if(subsystems_, [&](const auto& one) {
    const bool is_gone = all.child(one.first) == nullptr;
    if (is_gone) target_.remove(*one.second);
    return is_gone;
  });
  for (const auto& node : all.children) {
    auto& subsystem = subsystems_[node->name];
    if (subsystem == nullptr) {
      auto made = nvmeof::Subsystem::create(node->name);
      auto added = made ? target_.add(std::move(*made)) : std::unexpected(made.error());
      if (!added) {
        log(LogLevel::warn, "nvmet: {}", added.error().text);
        subsystems_.erase(node->name);
        continue;
      }
      subsystem = *added;
    }
    subsystem->set_serial(text_of(*node, "attr_serial"));
    subsystem->set(settings_of(*top, *node));
    keep_reservations(*node, *subsystem);
    target_.refresh(*subsystem);
  }
  runner_.wake();
  collect();
}

nvmeof::SubsystemSettings NvmetTree::settings_of(const Node& top, const Node& subsystem) const {
  nvmeof::SubsystemSettings settings{.admits_any_host = subsystem.is_set("attr_allow_any_host")};
  for (const auto& host : subsystem.child("allowed_hosts")->children)
    settings.hosts.insert(host->target->name);
  for (const auto& port : top.child("ports")->children) {
    const auto& shown = port->child("subsystems")->children;
    const bool shows =
        std::ranges::any_of(shown, [&](const auto& link) { return link->target == &subsystem; });
    const auto address = address_of(*port);
    if (!shows || !address) continue;
    settings.portals.push_back(*address);
    settings.access.push_back({*address, access_of(*port)});
  }
  settings.is_hidden = settings.portals.empty();
  for (const auto& space : subsystem.child("namespaces")->children) {
    const TreeDevices::Device* const device = devices_.find(*space);
    const auto id = target_tree::number_of(space->name).value_or(0);
    if (device == nullptr || id == 0 || id > nvmeof::Subsystem::kNamespacesMax) continue;
    const auto geometry = device->store->geometry();
    settings.spaces[id] = {
        .unit = device->unit,
        .blocks = geometry.bytes / geometry.block_bytes,
        .block_shift = static_cast<std::uint8_t>(std::countr_zero(geometry.block_bytes)),
        .is_read_only = geometry.is_read_only,
        .group = static_cast<std::uint32_t>(number_of(*space, "ana_grpid")),
        .can_reserve = space->is_set("resv_enable")};
    settings.uuids[id] = uuid_of(text_of(*space, "device_uuid"));
  }
  return settings;
}

void NvmetTree::keep_reservations(const Node& node, nvmeof::Subsystem& subsystem) const {
  if (folder_.empty()) return;
  for (const auto& space : node.child("namespaces")->children) {
    const auto id = target_tree::number_of(space->name).value_or(0);
    const auto found = subsystem.find(static_cast<std::uint32_t>(id));
    if (!found || found->reservations == nullptr || found->reservations->has_keeper()) continue;
    KeptNvmeReservations::attach(
        fmt::format("{}/reservations/nvme-{}.json", folder_, text_of(*space, "device_uuid")),
        *found->reservations);
  }
}

void NvmetTree::collect() {
  std::erase_if(old_portals_, [](const auto& portal) { return portal->queue_count() == 0; });
  if (runner_.session_count() == 0) target_.forget_removed();
}

}  // namespace verbatim::ulp::target
