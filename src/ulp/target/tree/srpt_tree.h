#pragma once

#include "ulp/rdma/device.h"
#include "ulp/target/tree/tree_part.h"

namespace verbatim::ulp::target {

/// target/srpt: names of ports must be this device's. What is made is kept and saved, but not yet
/// served: a line in the log says so. SRP is served by options (srp_part.h).
class SrptTree final : public TreePart {
 public:
  explicit SrptTree(const rdma::Device& device) : device_(device) {}
  int on_make(const target_tree::Node& directory) override;
  void settle(const target_tree::Node*, std::string_view) override {}

 private:
  const rdma::Device& device_;
};

}  // namespace verbatim::ulp::target
