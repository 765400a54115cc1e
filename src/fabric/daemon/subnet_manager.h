#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <sys/types.h>

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "fabric/topology/subnets/subnet_plan.h"

namespace verbatim::fabric {

/// A subnet manager that the daemon runs on a host of its own fabric: the system's opensm, with our
/// libibumad. It ends with the daemon, however that ends.
class SubnetManager {
 public:
  struct Place {
    std::string fabric;
    std::uint64_t host_guid = 0;
    std::uint64_t port_guid = 0;
    std::string folder;  // For its files and its log.
  };
  /// `options` for opensm; files in them may be relative to `working_folder`. ENOENT: opensm is not
  /// installed, or our libraries are not where they belong.
  static Result<SubnetManager> start(const Place& place, const SubnetPlan& subnet,
                                     const std::vector<std::string>& options,
                                     const std::string& working_folder);

  const Place& place() const { return place_; }
  std::string log() const { return place_.folder + "/log"; }
  bool runs() const { return pidfd_.get() >= 0; }
  pid_t pid() const { return pid_; }
  /// Becomes readable when it has ended.
  int fd() const { return pidfd_.get(); }
  /// Asks it to end; without patience it is killed.
  void stop(bool with_patience) const;
  /// After it has ended; then it does not run any more.
  void take_exit_status();
  /// Of one that has ended: the exit status, or 128 and the signal.
  int exit_status() const { return exit_status_; }

 private:
  Place place_;
  pid_t pid_ = -1;
  int exit_status_ = 0;
  UniqueFd pidfd_;
};

}  // namespace verbatim::fabric
