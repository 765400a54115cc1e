#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ulp/nvmeof/portal.h"
#include "ulp/rdma/driver.h"
#include "ulp/target/tree/tree_devices.h"

namespace verbatim::ulp::target {

/// nvmet/: subsystems with the files of their namespaces, and ports that listen as long as they
/// have a subsystem.
class NvmetTree final : public TreePart {
 public:
  /// `receives`: of all connections together.
  NvmetTree(nvmeof::Target& target, Runner& runner, rdma::Driver& driver, TreeDevices& devices,
            std::uint32_t receives)
      : target_(target), runner_(runner), driver_(driver), devices_(devices), receives_(receives) {}

  /// Where reservations are kept that outlive the process. Without it, none are.
  void keep_in(std::string folder) { folder_ = std::move(folder); }

  int on_write(const target_tree::Node& directory, std::string_view attribute,
               std::string_view value) override;
  int on_remove(const target_tree::Node& directory) override;
  int on_link(const target_tree::Node& directory, const target_tree::Node& target) override;
  int on_unlink(const target_tree::Node& directory, const target_tree::Node& target) override;
  void settle(const target_tree::Node* top, std::string_view changed) override;

  /// "10.0.0.1:4420".
  void add_places(std::vector<std::string>& places) const;

 private:
  struct Port {
    std::string place;
    rdma::ListenerId listener{};
    std::unique_ptr<nvmeof::Portal> portal;
  };
  int listen(const target_tree::Node& port);
  nvmeof::SubsystemSettings settings_of(const target_tree::Node& top,
                                        const target_tree::Node& subsystem) const;
  /// By the namespace's UUID, which stays when the tree is restored.
  void keep_reservations(const target_tree::Node& node, nvmeof::Subsystem& subsystem) const;
  /// Frees what no connection uses any more.
  void collect();

  nvmeof::Target& target_;
  Runner& runner_;
  rdma::Driver& driver_;
  TreeDevices& devices_;
  const std::uint32_t receives_;
  std::string folder_;
  std::map<std::string, nvmeof::Subsystem*> subsystems_;  // The engine's, by NQN.
  std::map<std::string, Port> ports_;                     // That listen.
  std::vector<std::unique_ptr<nvmeof::Portal>> old_portals_;
};

}  // namespace verbatim::ulp::target
