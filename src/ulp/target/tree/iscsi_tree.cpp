#include "ulp/target/tree/iscsi_tree.h"

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "base/log.h"
#include "ulp/target_tree/parsers.h"

namespace verbatim::ulp::target {
namespace {

using target_tree::Node;

constexpr auto kProtocol = scsi::Protocol::iscsi;

bool is_portal(const Node& directory) { return directory.find("iser") >= 0; }

std::uint32_t number_in(std::string_view prefix, const Node& node) {
  return target_tree::number_after(prefix, node.name).value_or(~0u);
}

iscsi::Authentication authentication_of(const Node& credentials, bool is_demanded) {
  if (!is_demanded) return {};
  return {
      .initiator = {text_of(credentials, "userid"), text_of(credentials, "password")},
      .target = {text_of(credentials, "userid_mutual"), text_of(credentials, "password_mutual")},
      .is_demanded = true};
}

/// As LIO writes it: rtslib reads it word by word.
std::string info_of(const iscsi::Sessions::Session& session) {
  const iscsi::ConnectionFacts facts = session.connection->facts();
  std::string isid;
  for (int shift = 40; shift >= 0; shift -= 8)
    isid += fmt::format("{:02x} ", session.isid >> shift & 0xff);
  return fmt::format(
      "InitiatorName: {}\nInitiatorAlias: {}\n"
      "LIO Session ID: {}   ISID: 0x{} TSIH: {}  SessionType: Normal\n"
      "Session State: TARG_SESS_STATE_LOGGED_IN\n"
      "---------------------[iSCSI Session Values]-----------------------\n"
      "  CmdSN/WR  :  CmdSN/WC  :  ExpCmdSN  :  MaxCmdSN  :     ITT    :     TTT\n"
      " {:#010x}   {:#010x}   {:#010x}   {:#010x}   {:#010x}   {:#010x}\n"
      "----------------------[iSCSI Connections]-------------------------\n"
      "CID: {}  Connection State: TARG_CONN_STATE_LOGGED_IN\n"
      "   Address {} {}  StatSN: {:#010x}\n",
      session.initiator, session.alias, session.tsih(), isid, session.tsih(),
      facts.max_cmd_sn - facts.exp_cmd_sn + 1, 64, facts.exp_cmd_sn, facts.max_cmd_sn, 0, 0,
      facts.id, facts.peer.ip_text(), facts.is_iser ? "SCTP" : "TCP", facts.stat_sn);
}

}  // namespace

int IscsiTree::on_make(const Node& directory) {
  return is_portal(directory) ? portals_.open(directory.name) : 0;
}

int IscsiTree::on_remove(const Node& directory) {
  if (!is_portal(directory)) return 0;
  if (directory.is_set("iser")) static_cast<void>(portals_.set_iser(directory.name, false));
  portals_.close(directory.name);
  return 0;
}

int IscsiTree::on_write(const Node& directory, std::string_view attribute, std::string_view value) {
  return is_portal(directory) && attribute == "iser"
             ? portals_.set_iser(directory.name, value == "1")
             : 0;
}

void IscsiTree::settle(const Node* top, std::string_view changed) {
  if (changed.starts_with("discovery_auth")) {
    const Node& credentials = *top->child("discovery_auth");
    sessions_.set_discovery_authentication(
        authentication_of(credentials, credentials.is_set("enforce_discovery_auth")));
    return;
  }
  const std::string name(changed.substr(0, changed.find('/')));
  if (!name.empty()) settle_target(name, top == nullptr ? nullptr : top->child(name));
  runner_.wake();
}

void IscsiTree::settle_target(const std::string& name, const Node* target) {
  auto& groups = targets_[name];
  std::erase_if(groups, [&](const auto& group) {
    const bool is_gone = target == nullptr || target->child(group.first) == nullptr;
    if (is_gone) {
      sessions_.remove(*group.second);
      devices_.port_numbers().forget("target/iscsi/" + name + "/" + group.first);
    }
    return is_gone;
  });
  if (target == nullptr) return static_cast<void>(targets_.erase(name));
  for (const auto& group : target->children)
    if (group->find("dynamic_sessions") >= 0) settle_group(name, *group);
}

void IscsiTree::settle_group(const std::string& name, const Node& group) {
  iscsi::Target*& target = targets_[name][group.name];
  if (target == nullptr) {
    const auto tag = static_cast<std::uint16_t>(number_in("tpgt_", group));
    auto made = iscsi::Target::create(name, tag, devices_.port_numbers().of(group.path()));
    auto added = made ? sessions_.add(std::move(*made)) : std::unexpected(made.error());
    if (!added) {
      log(LogLevel::warn, "{}", added.error().text);
      return static_cast<void>(targets_[name].erase(group.name));
    }
    target = *added;
  }
  target->set(settings_of(group));
  sessions_.refresh(*target);
}

iscsi::TargetSettings IscsiTree::settings_of(const Node& group) {
  const Node& attributes = *group.child("attrib");
  iscsi::TargetSettings settings{.is_enabled = group.is_set("enable"),
                                 .admits_any = attributes.is_set("generate_node_acls"),
                                 .is_shown_to_any = attributes.is_set("demo_mode_discovery"),
                                 .authentication = authentication_of(
                                     *group.child("auth"), attributes.is_set("authentication"))};
  const bool may_write = !attributes.is_set("demo_mode_write_protect");
  for (const auto& unit : group.child("lun")->children) {
    const Node* const device = unit->linked();
    scsi::LogicalUnit* const shown =
        device == nullptr ? nullptr : devices_.unit(*device, kProtocol, may_write);
    if (shown != nullptr) static_cast<void>(settings.units.add(number_in("lun_", *unit), *shown));
  }
  for (const auto& acl : group.child("acls")->children)
    settings.initiators[acl->name] = initiator_of(*acl, attributes.is_set("authentication"));
  for (const auto& portal : group.child("np")->children)
    if (const auto address = portal_address(portal->name)) settings.portals.push_back(*address);
  // A group without a portal is nowhere.
  settings.is_enabled &= !settings.portals.empty();
  return settings;
}

iscsi::Initiator IscsiTree::initiator_of(const Node& acl, bool group_demands) {
  const std::string own = text_of(*acl.child("attrib"), "authentication");
  const bool is_demanded = own == "-1" ? group_demands : own == "1";
  iscsi::Initiator initiator{.own = authentication_of(*acl.child("auth"), is_demanded),
                             .units = scsi::LunMap()};
  for (const auto& mapped : acl.children) {
    const Node* const unit = mapped->linked();
    const Node* const device = unit == nullptr ? nullptr : unit->linked();
    if (device == nullptr) continue;
    scsi::LogicalUnit* const shown =
        devices_.unit(*device, kProtocol, !mapped->is_set("write_protect"));
    if (shown != nullptr)
      static_cast<void>(initiator.units->add(number_in("lun_", *mapped), *shown));
  }
  return initiator;
}

std::optional<std::string> IscsiTree::on_read(const Node& directory, std::string_view attribute) {
  const bool is_acl = attribute == "info";
  if (!is_acl && attribute != "dynamic_sessions") return std::nullopt;
  const Node& group = is_acl ? *directory.parent->parent : directory;
  const auto target = targets_.find(group.parent->name);
  if (target == targets_.end() || !target->second.contains(group.name)) return std::nullopt;
  const iscsi::Target* const wanted = target->second.at(group.name);
  std::optional<std::string> text;
  for (const auto& session : sessions_.sessions()) {
    if (session == nullptr || session->target.get() != wanted) continue;
    if (is_acl && session->initiator == directory.name) return info_of(*session);
    if (!is_acl && !wanted->settings().initiators.contains(session->initiator))
      text = text.value_or("") + session->initiator + "\n" + '\0';
  }
  return text;
}

}  // namespace verbatim::ulp::target
