#pragma once

#include <map>
#include <string>

#include "ulp/iscsi/sessions.h"
#include "ulp/target/tree/iscsi_portals.h"
#include "ulp/target/tree/tree_devices.h"

namespace verbatim::ulp::target {

/// target/iscsi: each portal group is a target of the engine's, which is set anew after each
/// change.
class IscsiTree final : public TreePart {
 public:
  IscsiTree(iscsi::Sessions& sessions, Runner& runner, IscsiPortals& portals, TreeDevices& devices)
      : sessions_(sessions), runner_(runner), portals_(portals), devices_(devices) {}

  int on_write(const target_tree::Node& directory, std::string_view attribute,
               std::string_view value) override;
  int on_make(const target_tree::Node& directory) override;
  int on_remove(const target_tree::Node& directory) override;
  /// What ACLs and portal groups tell of sessions.
  std::optional<std::string> on_read(const target_tree::Node& directory,
                                     std::string_view attribute) override;
  void settle(const target_tree::Node* top, std::string_view changed) override;

 private:
  void settle_target(const std::string& name, const target_tree::Node* target);
  void settle_group(const std::string& name, const target_tree::Node& group);
  iscsi::TargetSettings settings_of(const target_tree::Node& group);
  iscsi::Initiator initiator_of(const target_tree::Node& acl, bool group_demands);

  iscsi::Sessions& sessions_;
  Runner& runner_;
  IscsiPortals& portals_;
  TreeDevices& devices_;
  /// The engine's, by the name of the target and of the portal group.
  std::map<std::string, std::map<std::string, iscsi::Target*>> targets_;
};

}  // namespace verbatim::ulp::target
