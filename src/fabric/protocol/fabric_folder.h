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
  /// In this network namespace. Makes nothing but the runtime folder. EINVAL: `name` cannot be one.
  static Result<FabricFolder> own(const std::string& name);
  /// Also of a fabric that runs in another namespace of the user, where this one has none. EEXIST:
  /// it runs in several others.
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
  /// A folder: files and log of a subnet manager that the daemon starts; one for each subnet,
  /// counted from 0.
  std::string manager(std::size_t subnet) const;
  /// A folder: a host's view of /sys.
  std::string view(std::uint64_t host_guid) const;
  /// Locked by the programs of a host, as its agent gives them slots.
  std::string programs(std::uint64_t host_guid) const;
  /// Opened by a program while it is the subnet manager of the port: a FIFO.
  std::string issm(std::uint64_t host_guid, unsigned port) const;

  /// A connection to the daemon. ENOENT in words: no fabric of this name runs.
  Result<UniqueFd> connect() const;

 private:
  std::string name_;
  std::string path_;
};

/// Names of the fabrics that run here, sorted.
Result<std::vector<std::string>> fabrics();

}  // namespace verbatim::fabric::protocol
