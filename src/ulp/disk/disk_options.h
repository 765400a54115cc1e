#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "ulp/disk/disk_thread.h"

namespace verbatim::ulp::disk {

/// What programs are told of a disk, as KEY=VALUE: url, initiator, host-id, auth, patience, name.
struct DiskOptions {
  std::vector<std::string> urls;  // A path each.
  Identity identity = own_identity();
  DiskSettings settings;

  /// False: the key is not known. EINVAL: what is expected.
  Result<bool> set(std::string_view key, const std::string& value);
  /// Once all are set: the settings' URL and targets.
  Result<void> complete();
};

}  // namespace verbatim::ulp::disk
