#pragma once

#include <string>

#include "ulp/target/iscsi_part.h"
#include "ulp/target/tree/iscsi_tree.h"
#include "ulp/target/tree/live_tree.h"
#include "ulp/target/tree/nvmet_tree.h"
#include "ulp/target/tree/srpt_tree.h"

namespace verbatim::ulp::target {

/// What a process serves with. All of it outlives the tree.
struct Engines {
  service::Loop& loop;
  Runner& runner;
  rdma::Driver& driver;
  tcp::Driver& tcp;
  IscsiPart& iscsi;
  SrpPart& srp;
  nvmeof::Target& nvme;
  std::uint32_t nvme_receives = 0;      // Of all connections together.
  target_tree::KernelVersion kernel{};  // Whose tree programs see.
};

/// The tree of a process, with all of its parts.
class ServedTree {
 public:
  explicit ServedTree(const Engines& engines);
  /// `name`: the daemon's. Programs find the tree in its runtime folder, and what they save in
  /// `verbatim/target/NAME` of the user's configuration.
  Result<void> open(service::Loop& loop, const std::string& name);
  TreeDevices& devices() { return devices_; }
  /// Where it listens, for `show`.
  void add_places(std::vector<std::string>& places) const;

 private:
  TreeDevices devices_;
  IscsiPortals portals_;
  IscsiTree iscsi_;
  NvmetTree nvmet_;
  SrptTree srpt_;
  LiveTree tree_;
};

}  // namespace verbatim::ulp::target
