#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ulp/scsi/alua/port_groups.h"
#include "ulp/target_tree/node.h"

namespace verbatim::ulp::target {

/// Relative identifiers of the ports that show units: portal groups of iSCSI, and SRP's port. Each
/// has one of its own from the first call until it is forgotten, the lowest that is free.
class PortNumbers {
 public:
  /// `path`: the portal group's, or that of srpt.
  std::uint16_t of(const std::string& path);
  void forget(const std::string& path) { numbers_.erase(path); }

 private:
  std::map<std::string, std::uint16_t> numbers_;
};

/// A device's `alua` folder as the engine has it, with the ports of the LUNs that link to it. A
/// group without a number is not there, as in Linux.
std::vector<scsi::PortGroup> port_groups_of(const target_tree::Node& device, PortNumbers& numbers);

/// What an initiator has changed of a group, as its folder's attributes: name and value.
std::map<std::string, std::string> attributes_of(const scsi::PortGroup& group);

}  // namespace verbatim::ulp::target
