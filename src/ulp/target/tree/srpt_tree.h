#pragma once

#include "ulp/target/srp_part.h"
#include "ulp/target/tree/tree_devices.h"

namespace verbatim::ulp::target {

/// target/srpt: this host's port, as one of SRP with the node's GUID twice, like Linux's. All
/// folders that name it by GID or GUID, and all their portal groups, are one port of the engine's,
/// which is set anew after each change.
class SrptTree final : public TreePart {
 public:
  SrptTree(SrpPart& srp, Runner& runner, const rdma::Device& device, TreeDevices& devices)
      : srp_(srp), runner_(runner), device_(device), devices_(devices) {}

  int on_make(const target_tree::Node& directory) override;
  int on_write(const target_tree::Node& directory, std::string_view attribute,
               std::string_view value) override;
  int on_remove(const target_tree::Node& directory) override;
  void settle(const target_tree::Node* top, std::string_view changed) override;

 private:
  srp::PortSettings settings_of(const target_tree::Node& top);
  void add_group(const target_tree::Node& group, bool is_by_gid, srp::PortSettings& settings);

  SrpPart& srp_;
  Runner& runner_;
  const rdma::Device& device_;
  TreeDevices& devices_;
  srp::Port* port_ = nullptr;  // The engine's, as long as a folder names it.
  std::uint16_t cm_port_ = 0;
};

}  // namespace verbatim::ulp::target
