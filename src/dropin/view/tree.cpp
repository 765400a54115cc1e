#include "dropin/view/tree.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dropin/view/connection.h"
#include "dropin/view/redirect.h"

namespace verbatim::view {
namespace {

constexpr const char* kMount = "/sys/kernel/config";
// --- Programs that insist on being root

bool is_administrators = false;

bool is_named(const char* path) {
  const char* const slash = std::strrchr(path, '/');
  const char* const name = slash == nullptr ? path : slash + 1;
  for (const char* const known : {"targetcli", "targetctl", "nvmetcli"})
    if (std::strcmp(name, known) == 0) return true;
  return false;
}

/// A script's name is the second word. Its system bus is the target's: the machine's takes no user
/// for root.
[[gnu::constructor]] void look_at_program(int argc, char** argv, char**) {
  const char* const folder = target_root();
  if (argc < 1) return;
  note_inherited(1);
  if (folder == nullptr) return;
  is_administrators = is_named(argv[0]) || (argc > 1 && is_named(argv[1]));
  char address[PATH_MAX + 32];
  if (!is_administrators || std::strlen(folder) >= PATH_MAX) return;
  std::strcpy(stpcpy(stpcpy(address, "unix:path="), folder), "/bus");
  setenv("DBUS_SYSTEM_BUS_ADDRESS", address, 1);
}

}  // namespace

bool acts_as_root() { return is_administrators; }

bool TreePath::take_inside(const char* path) {
  char copy[PATH_MAX];
  const char* rest = nullptr;
  const char* const folder = target_root();
  is_ours_ = lies_in(path, kMount, &rest);
  if (!is_ours_ && folder != nullptr && std::strlen(folder) + 8 < sizeof copy) {
    std::strcpy(stpcpy(copy, folder), "/config");
    is_ours_ = lies_in(path, copy, &rest);
  }
  if (!is_ours_) return false;
  while (*rest == '/') ++rest;
  is_ours_ = std::strlen(rest) < sizeof path_;
  if (is_ours_) std::strcpy(path_, rest);
  return is_ours_;
}

TreePath::TreePath(int folder, const char* path) {
  if (path == nullptr || target_root() == nullptr) return;
  const int before = errno;
  if (*path == '/') {
    take_inside(path);
  } else {
    char base[PATH_MAX], link[32];
    ssize_t size = 0;
    if (folder == AT_FDCWD) {
      size = syscall(SYS_getcwd, base, sizeof base) - 1;
    } else {
      std::snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
      size = syscall(SYS_readlinkat, AT_FDCWD, link, base, sizeof base - 1);
    }
    if (size > 0 && static_cast<std::size_t>(size) + std::strlen(path) + 2 < sizeof base) {
      base[size] = '/';
      std::strcpy(base + size + 1, path);
      take_inside(base);
    }
  }
  errno = before;
}

int change_tree(char request, const TreePath& path, const char* second) {
  Reply reply;
  const int fd = dial_and_ask(Daemon::target, request, path.path(), second, reply);
  return fd < 0 ? -1 : call_close(fd);
}

int open_to_read(const TreePath& path, int flags) {
  Reply reply;
  const int fd = dial_and_ask(Daemon::target, 'g', path.path(), "", reply);
  if (fd < 0) return -1;
  call_close(fd);
  const int file = memfd_create("attribute", (flags & O_CLOEXEC) != 0 ? MFD_CLOEXEC : 0u);
  if (file < 0) return -1;
  if (syscall(SYS_write, file, reply.text, reply.size) != static_cast<ssize_t>(reply.size) ||
      lseek(file, 0, SEEK_SET) != 0)
    return call_close(file), errno = EIO, -1;
  set_kind(file, Opened::nothing);
  return file;
}

int open_to_write(const TreePath& path, int flags) {
  const int fd = open_at(Daemon::target, path.path(), flags, Opened::attribute);
  if (fd < 0 && errno == ENOENT && (flags & O_CREAT) != 0) errno = EACCES;
  return fd;
}

}  // namespace verbatim::view
