#include "ulp/initiator/files.h"

#include <cerrno>
#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os/unique_fd.h"

namespace verbatim::ulp::initiator {

namespace fs = std::filesystem;

Result<Files> Files::create(std::string folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (!fs::create_directories(folder, error) && error)
    return refuse(error.value(), folder + ": " + error.message());
  fs::permissions(folder, fs::perms::owner_all, error);
  return Files(std::move(folder));
}

Files::~Files() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

void Files::put(const std::string& path, std::string_view text, mode_t mode) {
  const fs::path file = folder_ + path, fresh = folder_ + "/file.new";
  std::error_code error;
  fs::create_directories(file.parent_path(), error);
  const UniqueFd made(open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  const bool is_written =
      made && write(made.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      fchmod(made.get(), mode) == 0;
  if (is_written) fs::rename(fresh, file, error);
  if (!is_written || error)
    log(LogLevel::warn, "cannot write {}: is its file system full?", file.string());
}

void Files::make_folder(const std::string& path) {
  std::error_code ignored;
  fs::create_directories(folder_ + path, ignored);
}

void Files::put_device(const std::string& path) {
  std::error_code ignored;
  fs::create_directories(fs::path(folder_ + path).parent_path(), ignored);
  fs::create_symlink("/dev/null", folder_ + path, ignored);
}

void Files::remove(const std::string& path) {
  std::error_code ignored;
  fs::remove_all(folder_ + path, ignored);
}

}  // namespace verbatim::ulp::initiator
