#pragma once

#include <cstdio>
#include <string>

#include <fcntl.h>
#include <unistd.h>

namespace verbatim {

/// Puts a file that is complete in the place of another one, or where there is none: readers see
/// one or the other. The two change places, and then the old one goes: if rename(2) replaced it,
/// ext4 would wait until the disk has the new one (auto_da_alloc), for seconds if the disk is busy.
inline bool replace_file(const std::string& fresh, const std::string& path) {
  if (renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) != 0) {
    return std::rename(fresh.c_str(), path.c_str()) == 0;
  }
  unlink(fresh.c_str());
  return true;
}

}  // namespace verbatim
