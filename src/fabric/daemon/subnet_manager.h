#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <sys/types.h>

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "fabric/protocol/fabric_folder.h"

namespace verbatim::fabric {

/// The subnet manager that the daemon runs on a host of its own fabric: the system's opensm, with
/// our libibumad. It ends with the daemon, however that ends.
class SubnetManager {
 public:
  struct Place {
    std::string fabric;
    std::uint64_t host_guid = 0;
    std::uint64_t port_guid = 0;
  };
  /// ENOENT: opensm is not installed, or our libraries are not where they belong.
  static Result<SubnetManager> start(const protocol::FabricFolder& folder, const Place& place);

  pid_t pid() const { return pid_; }
  /// Becomes readable when it has ended.
  int fd() const { return pidfd_.get(); }
  /// Asks it to end; without patience it is killed.
  void stop(bool with_patience) const;
  /// After it has ended: the exit status, or 128 and the signal.
  int take_exit_status();

 private:
  pid_t pid_ = -1;
  UniqueFd pidfd_;
};

}  // namespace verbatim::fabric
