#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "fabric/daemon/hosts/host_facts.h"
#include "fabric/protocol/messages.h"

/// A host's view of /sys: a folder into which src/dropin/view leads the path calls of programs, for
/// scripts such as ibstatus.
namespace verbatim::fabric {

class HostView {
 public:
  explicit HostView(std::string folder) : folder_(std::move(folder)) {}

  /// Makes the view say this. `counters`: more files of the device. Replaces the files that have
  /// changed, each in one step; if there are others than before, the whole folder in one step.
  Result<void> show(const protocol::HostDescription& host, std::vector<HostFile> counters);

 private:
  bool has_same_paths(const std::vector<HostFile>& files) const;
  bool write_changes(const protocol::HostDescription& host,
                     const std::vector<HostFile>& files) const;

  std::string folder_;
  std::vector<HostFile> shown_;  // Below the device's folder.
};

}  // namespace verbatim::fabric
