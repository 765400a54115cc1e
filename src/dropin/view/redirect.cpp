#include "dropin/view/redirect.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace verbatim::view {
namespace {

/// Whole folders: a file that the view lacks does not exist, so a program never sees parts of a
/// real card.
constexpr const char* kFolders[] = {
    "/sys/class/infiniband",
    "/sys/class/infiniband_verbs",
    "/sys/class/infiniband_mad",
    "/sys/class/infiniband_cm",
    "/sys/class/infiniband_srp",
    "/sys/devices/virtual/verbatim",
    // What initiators look at is there without a login, too: empty.
    "/sys/class/scsi_host",
    "/sys/class/srp_remote_ports",
    "/sys/class/nvme",
    "/sys/class/nvme-subsystem",
    "/sys/class/nvme-fabrics",
    "/dev/nvme-fabrics",
    "/dev/infiniband",
};

/// What the daemon of a node's logins may have, the files of devices by the first part of their
/// names: those of the machine stay where it has none.
constexpr const char* kOfInitiator[] = {"/sys/class/scsi_host", "/sys/class/srp_remote_ports",
                                        "/sys/class/nvme", "/sys/class/nvme-subsystem",
                                        "/sys/class/nvme-fabrics"};
constexpr const char* kDevices[] = {"/dev/nvme", "/dev/ng"};

/// What must be there for a path to be the daemon's: its folder, or the file itself. Null: it is
/// not the daemon's.
const char* needed_for(const char* path) {
  for (const char* const folder : kOfInitiator)
    if (lies_in(path, folder)) return folder;
  for (const char* const device : kDevices)
    if (std::strncmp(path, device, std::strlen(device)) == 0) return path;
  return nullptr;
}

bool is_there(const char* path) {
  const int before = errno;
  const bool is_so = syscall(SYS_faccessat, AT_FDCWD, path, F_OK) == 0;
  errno = before;
  return is_so;
}

/// What administrators' programs of storage targets have of their own, and where it is in the
/// target's folder.
constexpr struct {
  const char* path;
  const char* inside;
} kOfTarget[] = {
    {"/sys/kernel/config", "/config"},
    {"/etc/rtslib-fb-target", "/rtslib"},
    {"/etc/target", "/rtslib"},
    {"/etc/nvmet", "/nvmet"},
    {"/run/targetcli.lock", "/run/targetcli.lock"},
    {"/var/run/targetcli.lock", "/run/targetcli.lock"},
    {"/run/rtslib_backstore.lock", "/run/rtslib_backstore.lock"},
    {"/var/run/rtslib_backstore.lock", "/run/rtslib_backstore.lock"},
};

const char* absolute(const char* variable) {
  const char* const folder = std::getenv(variable);
  return folder != nullptr && *folder == '/' ? folder : nullptr;
}

}  // namespace

const char* root() { return absolute("VERBATIM_VIEW"); }
const char* target_root() { return absolute("VERBATIM_TARGET"); }
const char* initiator_root() { return absolute("VERBATIM_INITIATOR"); }

bool lies_in(const char* path, const char* folder, const char** rest) {
  for (; *path != '\0' && *folder != '\0'; ++folder) {
    if (*path != *folder) return false;
    const bool slash = *path++ == '/';
    while (slash && *path == '/') ++path;
  }
  if (rest != nullptr) *rest = path;
  return *folder == '\0' && (*path == '\0' || *path == '/');
}

Redirected::Redirected(const char* path, const char* view_root) : path_(path) {
  if (path == nullptr || *path != '/') return;
  if (take_initiators(path)) return;
  for (const char* const folder : kFolders) {
    if (view_root == nullptr || !lies_in(path, folder)) continue;
    join(view_root, "", path);
    is_of_view_ = is_ours();
    return;
  }
  for (const auto& one : kOfTarget) {
    const char* rest = nullptr;
    if (!lies_in(path, one.path, &rest)) continue;
    if (const char* const target = target_root()) join(target, one.inside, rest);
    return;
  }
}

/// The daemon's folder is there while it runs.
bool Redirected::take_initiators(const char* path) {
  const char* const folder = initiator_root();
  const char* const needed = folder == nullptr ? nullptr : needed_for(path);
  if (needed == nullptr || !is_there(folder)) return false;
  join(folder, "", path);
  if (needed == path && !is_there(path_)) path_ = path;
  is_of_view_ = is_ours();
  return is_ours();
}

void Redirected::join(const char* folder, const char* inside, const char* rest) {
  if (std::strlen(folder) + std::strlen(inside) + std::strlen(rest) >= sizeof buffer_) return;
  char* const after = stpcpy(stpcpy(buffer_, folder), inside);
  std::strcpy(after, rest);
  path_ = buffer_;
}

bool refuses_writing(const Redirected& file) {
  if (!file.is_of_view()) return false;
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
