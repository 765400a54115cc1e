#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "fabric/topology/topology.h"

/// The files that a subnet manager opens while it serves a port, as /dev/infiniband/issmN: the
/// port's IsSM bit is set as long as the file is open, also where its program is killed.
namespace verbatim::fabric {

/// Each is a FIFO of which the daemon holds the writing end alone. inotify(7) tells of every
/// opening and closing; whether a reader is left, the writing end says. Unlike the kernel's device,
/// it lets a second program open it.
class IssmFiles {
 public:
  static Result<IssmFiles> create();

  /// To be watched for input.
  int fd() const { return inotify_.get(); }
  /// Makes the port's file if there is none yet.
  Result<void> add(PortPlace port, const std::string& path);

  struct Change {
    PortPlace port;
    bool is_open = false;
  };
  /// Files that may have been opened or closed, as they are now.
  std::vector<Change> take_changes();

 private:
  struct File {
    PortPlace port;
    UniqueFd writing;
  };
  UniqueFd inotify_;
  std::map<int, File> files_;  // By inotify's number.
};

}  // namespace verbatim::fabric
