#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/os/unique_fd.h"

/// Where a fabric of a user and network namespace leaves its socket, files and logs.
namespace verbatim::fabric::protocol {

inline constexpr const char* kDefaultFabric = "default";

/// RUNTIME_FOLDER/fabric-NAME, of mode 0700.
class FabricFolder {
 public:
  /// Makes nothing but the runtime folder. EINVAL: `name` cannot be one.
  static Result<FabricFolder> of(const std::string& name);

  /// Makes the folder if it is missing. EPERM: something that is not ours is in its place.
  Result<void> make() const;
  /// Removes it with all that is in it, but for `logs`: these stay for the person who reads them.
  void remove() const;

  const std::string& path() const { return path_; }
  std::string socket() const { return path_ + "/socket"; }
  /// Held by the daemon as long as it runs.
  std::string lock() const { return path_ + "/lock"; }
  std::string log() const { return path_ + "/log"; }
  /// A folder: files and log of the subnet manager that the daemon starts.
  std::string manager() const { return path_ + "/manager"; }
  std::string manager_log() const { return manager() + "/log"; }
  /// A folder: a host's view of /sys.
  std::string view(std::uint64_t host_guid) const;
  /// Opened by a program while it is the subnet manager of the port: a FIFO.
  std::string issm(std::uint64_t host_guid, unsigned port) const;

  /// A connection to the daemon. ENOENT in words: no fabric of this name runs.
  Result<UniqueFd> connect() const;

 private:
  std::string name_;
  std::string path_;
};

/// Names of the fabrics that have a socket here, sorted. Their daemons may be dead.
Result<std::vector<std::string>> fabrics();

}  // namespace verbatim::fabric::protocol
