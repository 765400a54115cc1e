#pragma once

#include <string>
#include <string_view>

#include <sys/types.h>

#include "base/error.h"

namespace verbatim::ulp::initiator {

/// The folder that programs see in /sys and /dev: plain files, which the view redirects to. Removed
/// at the end.
class Files {
 public:
  static Result<Files> create(std::string folder);
  Files(Files&& other) noexcept : folder_(std::move(other.folder_)) { other.folder_.clear(); }
  Files& operator=(Files&&) = delete;
  ~Files();

  /// `path`: as programs know it, "/sys/class/...". A file that is there is replaced as a whole.
  void put(const std::string& path, std::string_view text, mode_t mode = 0444);
  void make_folder(const std::string& path);
  /// What is stat()ed as a character device.
  void put_device(const std::string& path);
  /// With all that is in it.
  void remove(const std::string& path);

 private:
  explicit Files(std::string folder) : folder_(std::move(folder)) {}
  std::string folder_;
};

}  // namespace verbatim::ulp::initiator
