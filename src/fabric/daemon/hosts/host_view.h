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
  /// `issm_files`: of each port the file that a subnet manager opens (issm_files.h).
  explicit HostView(std::string folder, std::vector<std::string> issm_files = {})
      : folder_(std::move(folder)), issm_files_(std::move(issm_files)) {}

  /// Makes the view say this. `counters`: more files of the device. Replaces the files that have
  /// changed, each in one step; if there are others than before, the whole folder in one step.
  Result<void> show(const protocol::HostDescription& host, std::vector<HostFile> counters);
  std::string description_file() const;

 private:
  bool has_same_paths(const std::vector<HostFile>& files) const;
  bool write_changes(const protocol::HostDescription& host,
                     const std::vector<HostFile>& files) const;

  std::string folder_;
  std::vector<std::string> issm_files_;
  std::vector<HostFile> shown_;  // Below the device's folder.
};

}  // namespace verbatim::fabric
