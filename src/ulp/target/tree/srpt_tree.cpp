#include "ulp/target/tree/srpt_tree.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "base/log.h"
#include "ulp/target_tree/parsers.h"

namespace verbatim::ulp::target {
namespace {

using target_tree::Node;

constexpr auto kProtocol = scsi::Protocol::srp;
constexpr const char* kTop = "target/srpt";

/// "0x" and the GID's 32 digits, or its GUID as "5054:00ff:fe12:3456": as ib_srpt has them.
bool is_name_of(const Gid& gid, std::string_view name) {
  std::string digits, guid;
  for (std::size_t i = 0; i < gid.bytes.size(); ++i) {
    digits += fmt::format("{:02x}", gid.bytes[i]);
    if (i >= 8 && i % 2 == 1) guid += (guid.empty() ? "" : ":") + digits.substr(2 * i - 2);
  }
  return name == "0x" + digits || name == guid;
}

bool is_target(const Node& directory) { return directory.parent->path() == kTop; }
bool is_group(const Node& directory) { return directory.find("enable") >= 0; }

SocketAddress everywhere(std::uint16_t port) { return SocketAddress::ipv6({}, port); }

/// The unit that a LUN's link, or that of a mapped LUN, leads to.
std::uint32_t number_of_unit(const Node& unit) {
  return target_tree::number_after("lun_", unit.name).value_or(~0u);
}

}  // namespace

int SrptTree::on_make(const Node& directory) {
  if (!is_target(directory)) return 0;
  const auto gids = device_.port().gids;
  const bool is_known =
      std::ranges::any_of(gids, [&](const Gid& gid) { return is_name_of(gid, directory.name); });
  if (!is_known) return EINVAL;
  if (port_ != nullptr) return 0;
  srp::PortId id{};
  store_be(id.data(), device_.guid());
  store_be(&id[8], device_.guid());
  srp::Port port(id, srp::text_of(id), devices_.port_numbers().of(kTop));
  port.set_enabled(false);
  const auto added = srp_.add(std::move(port));
  if (!added) {
    log(LogLevel::info, "{}: {}", directory.path(), added.error().text);
    return added.error().code;
  }
  port_ = *added;
  return 0;
}

int SrptTree::on_write(const Node&, std::string_view attribute, std::string_view value) {
  if (attribute != "rdma_cm_port") return 0;
  const auto port = static_cast<std::uint16_t>(target_tree::number_of(value).value_or(0));
  if (port == cm_port_) return 0;
  if (port != 0) {
    if (const auto listens = srp_.listen(everywhere(port)); !listens) {
      log(LogLevel::info, "srpt, port {}: {}", port, listens.error().text);
      return listens.error().code;
    }
  }
  if (cm_port_ != 0) srp_.unlisten(everywhere(cm_port_));
  cm_port_ = port;
  return 0;
}

int SrptTree::on_remove(const Node& directory) {
  if (directory.path() == kTop && cm_port_ != 0)
    srp_.unlisten(everywhere(std::exchange(cm_port_, std::uint16_t{0})));
  return 0;
}

void SrptTree::settle(const Node* top, std::string_view /*changed*/) {
  if (port_ == nullptr) return;
  const bool is_named = top != nullptr && std::ranges::any_of(top->children, [](const auto& child) {
                          return child->name != "discovery_auth";
                        });
  if (is_named) {
    port_->set(settings_of(*top));
    srp_.refresh(*port_);
  } else {
    srp_.remove(*std::exchange(port_, nullptr));
    devices_.port_numbers().forget(kTop);
  }
  runner_.wake();
}

/// Enabled if one of its groups is, as Linux's.
srp::PortSettings SrptTree::settings_of(const Node& top) {
  srp::PortSettings settings{.is_enabled = false};
  for (const auto& target : top.children) {
    for (const auto& group : target->children)
      if (is_group(*group)) add_group(*group, target->name.starts_with("0x"), settings);
  }
  return settings;
}

/// Folders of a GID admit ports by their identifiers; those of a GUID, by GUID or IP address.
void SrptTree::add_group(const Node& group, bool is_by_gid, srp::PortSettings& settings) {
  settings.is_enabled |= group.is_set("enable");
  for (const auto& acl : group.child("acls")->children) {
    if (srp::parse_port_id(acl->name).has_value() != is_by_gid) continue;
    srp::Admitted admitted{.name = acl->name, .units = scsi::LunMap()};
    for (const auto& mapped : acl->children) {
      const Node* const unit = mapped->linked();
      const Node* const device = unit == nullptr ? nullptr : unit->linked();
      if (device == nullptr) continue;
      scsi::LogicalUnit* const shown =
          devices_.unit(*device, kProtocol, !mapped->is_set("write_protect"));
      if (shown != nullptr) static_cast<void>(admitted.units->add(number_of_unit(*mapped), *shown));
    }
    settings.initiators.push_back(std::move(admitted));
  }
}

}  // namespace verbatim::ulp::target
