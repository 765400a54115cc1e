#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/os/unique_fd.h"

/// `node_desc` of hosts' views: a program writes there how its host shall be described, as
/// rdma-ndd(8) does.
namespace verbatim::fabric {

inline constexpr std::string_view kDescriptionFile = "node_desc";

class DescriptionFiles {
 public:
  static Result<DescriptionFiles> create();

  /// To be watched for input.
  int fd() const { return inotify_.get(); }
  /// The host's file is here now. Watches it, if it is another one than before.
  void watch(std::uint32_t host, const std::string& path);

  struct Change {
    std::uint32_t host = 0;
    std::string description;
  };
  /// What programs have written since the last call.
  std::vector<Change> take_changes();

 private:
  struct File {
    std::uint32_t host = 0;
    std::string path;
  };
  UniqueFd inotify_;
  std::map<int, File> files_;  // By inotify's number.
};

}  // namespace verbatim::fabric
