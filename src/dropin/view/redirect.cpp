#include "dropin/view/redirect.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <sys/stat.h>

namespace verbatim::view {
namespace {

/// Whole folders: a file that the view lacks does not exist, so a program never sees parts of a
/// real card.
constexpr std::string_view kFolders[] = {
    "/sys/class/infiniband",    "/sys/class/infiniband_verbs", "/sys/class/infiniband_mad",
    "/sys/class/infiniband_cm", "/sys/class/infiniband_srp",   "/sys/devices/virtual/verbatim",
    // Without a folder of SCSI hosts srp_daemon ends, and ours are those of its view.
    "/sys/class/scsi_host",     "/dev/infiniband",
};

/// Returns true if the path is `folder` or inside it; repeated slashes count as one.
bool lies_in(const char* path, std::string_view folder) {
  std::size_t at = 0;
  for (; *path != '\0' && at < folder.size(); ++at) {
    if (*path != folder[at]) return false;
    const bool slash = *path++ == '/';
    while (slash && *path == '/') ++path;
  }
  return at == folder.size() && (*path == '\0' || *path == '/');
}

bool lies_in_view(const char* path) {
  if (path == nullptr || *path != '/') return false;
  for (const std::string_view folder : kFolders) {
    if (lies_in(path, folder)) return true;
  }
  return false;
}

}  // namespace

const char* root() {
  const char* folder = std::getenv("VERBATIM_VIEW");
  return folder != nullptr && *folder == '/' ? folder : nullptr;
}

Redirected::Redirected(const char* path, const char* view_root) : path_(path) {
  if (view_root == nullptr || !lies_in_view(path)) return;
  const std::size_t root_length = std::strlen(view_root);
  const std::size_t path_length = std::strlen(path);
  if (root_length + path_length >= sizeof buffer_) return;
  std::memcpy(buffer_, view_root, root_length);
  std::memcpy(buffer_ + root_length, path, path_length + 1);
  path_ = buffer_;
}

bool refuses_writing(const Redirected& file) {
  if (!file.is_ours()) return false;
  const int before = errno;
  struct stat status{};
  constexpr mode_t kWritable = S_IWUSR | S_IWGRP | S_IWOTH;
  const bool is_writable = stat(file.path(), &status) == 0 && (status.st_mode & kWritable) != 0;
  errno = is_writable ? before : EACCES;
  return !is_writable;
}

void strip_root(char* path, const char* view_root) {
  if (path == nullptr || view_root == nullptr) return;
  const std::size_t length = std::strlen(view_root);
  if (std::strncmp(path, view_root, length) != 0 || path[length] != '/') return;
  std::memmove(path, path + length, std::strlen(path + length) + 1);
}

}  // namespace verbatim::view
