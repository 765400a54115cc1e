/// The calls that change files, interposed: those of a storage target's tree are asked of its
/// daemon, those of its programs' own files are redirected. And what programs that insist on being
/// root see of their user.
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/os/passed_descriptors.h"
#include "dropin/view/device.h"
#include "dropin/view/initiator.h"
#include "dropin/view/next.h"
#include "dropin/view/redirect.h"
#include "dropin/view/tree.h"

using verbatim::view::acts_as_root;
using verbatim::view::change_tree;
using verbatim::view::Opened;
using verbatim::view::Redirected;
using verbatim::view::TreePath;

namespace {

/// targetcli gives mode 0600 to folders that it saves to: no matter for root, the end for a user.
mode_t searchable(const char* path, mode_t mode) {
  struct stat info{};
  const bool is_folder = acts_as_root() && stat(path, &info) == 0 && S_ISDIR(info.st_mode);
  return is_folder ? mode | (mode & 0444) >> 2 : mode;
}

int refuse(int code) {
  errno = code;
  return -1;
}

bool is_in_tree(int folder, const char* path) { return TreePath(folder, path).is_ours(); }

}  // namespace

#define VERBATIM_UNPACK(...) __VA_OPT__(, ) __VA_ARGS__

/// Calls with one path: a request to the daemon if it is of the tree.
#define VERBATIM_CHANGE(NAME, REQUEST, DECLARED, PASSED)                   \
  VERBATIM_EXPORT int NAME(const char* path VERBATIM_UNPACK DECLARED) {    \
    VERBATIM_NEXT(call, #NAME, int(const char* VERBATIM_UNPACK DECLARED)); \
    const TreePath inside(AT_FDCWD, path);                                 \
    if (inside.is_ours()) return change_tree(REQUEST, inside);             \
    return call(Redirected(path).path() VERBATIM_UNPACK PASSED);           \
  }
VERBATIM_CHANGE(rmdir, 'r', (), ())
VERBATIM_CHANGE(unlink, 'u', (), ())
VERBATIM_CHANGE(remove, 'u', (), ())

VERBATIM_EXPORT int mkdir(const char* path, mode_t mode) {
  VERBATIM_NEXT(call, "mkdir", int(const char*, mode_t));
  const TreePath inside(AT_FDCWD, path);
  if (inside.is_ours()) return change_tree('m', inside);
  const int made = call(Redirected(path).path(), mode);
  if (made == 0 && acts_as_root()) chmod(path, mode);
  return made;
}

VERBATIM_EXPORT int mkdirat(int folder, const char* path, mode_t mode) {
  VERBATIM_NEXT(call, "mkdirat", int(int, const char*, mode_t));
  const TreePath inside(folder, path);
  if (inside.is_ours()) return change_tree('m', inside);
  return call(folder, Redirected(path).path(), mode);
}

VERBATIM_EXPORT int unlinkat(int folder, const char* path, int flags) {
  VERBATIM_NEXT(call, "unlinkat", int(int, const char*, int));
  const TreePath inside(folder, path);
  if (inside.is_ours()) return change_tree((flags & AT_REMOVEDIR) != 0 ? 'r' : 'u', inside);
  return call(folder, Redirected(path).path(), flags);
}

VERBATIM_EXPORT int symlink(const char* target, const char* path) {
  VERBATIM_NEXT(call, "symlink", int(const char*, const char*));
  const TreePath inside(AT_FDCWD, path);
  if (!inside.is_ours()) return call(target, Redirected(path).path());
  const TreePath to(AT_FDCWD, target);
  return change_tree('s', inside, to.is_ours() ? to.path() : target);
}

VERBATIM_EXPORT int symlinkat(const char* target, int folder, const char* path) {
  VERBATIM_NEXT(call, "symlinkat", int(const char*, int, const char*));
  const TreePath inside(folder, path);
  if (!inside.is_ours()) return call(target, folder, Redirected(path).path());
  const TreePath to(AT_FDCWD, target);
  return change_tree('s', inside, to.is_ours() ? to.path() : target);
}

/// Nothing of the tree is renamed or linked.
#define VERBATIM_PAIR(NAME)                                                           \
  VERBATIM_EXPORT int NAME(const char* from, const char* to) {                        \
    VERBATIM_NEXT(call, #NAME, int(const char*, const char*));                        \
    if (is_in_tree(AT_FDCWD, from) || is_in_tree(AT_FDCWD, to)) return refuse(EPERM); \
    return call(Redirected(from).path(), Redirected(to).path());                      \
  }
VERBATIM_PAIR(rename)
VERBATIM_PAIR(link)

VERBATIM_EXPORT int renameat(int from_folder, const char* from, int to_folder, const char* to) {
  VERBATIM_NEXT(call, "renameat", int(int, const char*, int, const char*));
  if (is_in_tree(from_folder, from) || is_in_tree(to_folder, to)) return refuse(EPERM);
  return call(from_folder, Redirected(from).path(), to_folder, Redirected(to).path());
}

VERBATIM_EXPORT int renameat2(int from_folder, const char* from, int to_folder, const char* to,
                              unsigned flags) {
  VERBATIM_NEXT(call, "renameat2", int(int, const char*, int, const char*, unsigned));
  if (is_in_tree(from_folder, from) || is_in_tree(to_folder, to)) return refuse(EPERM);
  return call(from_folder, Redirected(from).path(), to_folder, Redirected(to).path(), flags);
}

VERBATIM_EXPORT int chmod(const char* path, mode_t mode) {
  VERBATIM_NEXT(call, "chmod", int(const char*, mode_t));
  const TreePath inside(AT_FDCWD, path);
  if (!inside.is_ours()) return call(Redirected(path).path(), searchable(path, mode));
  char text[16];
  std::snprintf(text, sizeof text, "%u", mode);
  return change_tree('c', inside, text);
}

VERBATIM_EXPORT int fchmodat(int folder, const char* path, mode_t mode, int flags) {
  VERBATIM_NEXT(call, "fchmodat", int(int, const char*, mode_t, int));
  const TreePath inside(folder, path);
  if (!inside.is_ours()) return call(folder, Redirected(path).path(), mode, flags);
  char text[16];
  std::snprintf(text, sizeof text, "%u", mode);
  return change_tree('c', inside, text);
}

#define VERBATIM_TRUNCATE(NAME, OFFSET)                       \
  VERBATIM_EXPORT int NAME(const char* path, OFFSET length) { \
    VERBATIM_NEXT(call, #NAME, int(const char*, OFFSET));     \
    if (is_in_tree(AT_FDCWD, path)) return 0;                 \
    return call(Redirected(path).path(), length);             \
  }
VERBATIM_TRUNCATE(truncate, off_t)
VERBATIM_TRUNCATE(truncate64, off64_t)

// Descriptors.

VERBATIM_EXPORT ssize_t write(int fd, const void* bytes, std::size_t size) {
  VERBATIM_NEXT(call, "write", ssize_t(int, const void*, std::size_t));
  const Opened kind = verbatim::view::kind_of(fd);
  if (kind == Opened::block_device)
    return verbatim::view::write_device(fd, bytes, size, verbatim::view::kAtPosition);
  if (kind != Opened::nothing) return verbatim::view::write_attribute(fd, bytes, size);
  return call(fd, bytes, size);
}

VERBATIM_EXPORT int dup(int fd) {
  VERBATIM_NEXT(call, "dup", int(int));
  const int copy = call(fd);
  verbatim::view::note_copy(fd, copy);
  return copy;
}

VERBATIM_EXPORT int dup2(int fd, int to) {
  VERBATIM_NEXT(call, "dup2", int(int, int));
  const int copy = call(fd, to);
  verbatim::view::note_copy(fd, copy);
  return copy;
}

VERBATIM_EXPORT int dup3(int fd, int to, int flags) {
  VERBATIM_NEXT(call, "dup3", int(int, int, int));
  const int copy = call(fd, to, flags);
  verbatim::view::note_copy(fd, copy);
  return copy;
}

#define VERBATIM_FCNTL(NAME)                                                                     \
  VERBATIM_EXPORT int NAME(int fd, int command, ...) {                                           \
    va_list arguments;                                                                           \
    va_start(arguments, command);                                                                \
    void* const argument = va_arg(arguments, void*);                                             \
    va_end(arguments);                                                                           \
    VERBATIM_NEXT(call, #NAME, int(int, int, ...));                                              \
    const int result = call(fd, command, argument);                                              \
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) verbatim::view::note_copy(fd, result); \
    return result;                                                                               \
  }
VERBATIM_FCNTL(fcntl)
VERBATIM_FCNTL(fcntl64)

namespace {

template <typename Info, typename Call>
int marked_fstat(Call call, int fd, Info* info) {
  const int result = call(fd, info);
  if (result != 0) return result;
  mode_t mode = info->st_mode;
  verbatim::view::mark_device(verbatim::view::kind_of(fd), mode);
  info->st_mode = mode;
  return result;
}

}  // namespace

VERBATIM_EXPORT int fstat(int fd, struct stat* info) {
  VERBATIM_NEXT(call, "fstat", int(int, struct stat*));
  return marked_fstat(call, fd, info);
}

VERBATIM_EXPORT int fstat64(int fd, struct stat64* info) {
  VERBATIM_NEXT(call, "fstat64", int(int, struct stat64*));
  return marked_fstat(call, fd, info);
}

VERBATIM_EXPORT int ioctl(int fd, unsigned long request, ...) {
  va_list arguments;
  va_start(arguments, request);
  void* const argument = va_arg(arguments, void*);
  va_end(arguments);
  VERBATIM_NEXT(call, "ioctl", int(int, unsigned long, ...));
  const auto kind = verbatim::view::kind_of(fd);
  if (kind == Opened::character_device || kind == Opened::block_device)
    return verbatim::view::control_device(fd, request, argument);
  return call(fd, request, argument);
}

// The user.

VERBATIM_EXPORT uid_t getuid() {
  VERBATIM_NEXT(call, "getuid", uid_t());
  return acts_as_root() ? 0 : call();
}

VERBATIM_EXPORT uid_t geteuid() {
  VERBATIM_NEXT(call, "geteuid", uid_t());
  return acts_as_root() ? 0 : call();
}

/// GLib sends the user that geteuid names as its credentials; the kernel refuses another's.
VERBATIM_EXPORT ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  VERBATIM_NEXT(call, "sendmsg", ssize_t(int, const msghdr*, int));
  if (acts_as_root() && message != nullptr && message->msg_control != nullptr) {
    verbatim::for_each_control(*message, [](cmsghdr& one) {
      ucred credentials{};
      if (one.cmsg_level != SOL_SOCKET || one.cmsg_type != SCM_CREDENTIALS ||
          one.cmsg_len < CMSG_LEN(sizeof credentials)) {
        return;
      }
      std::memcpy(&credentials, CMSG_DATA(&one), sizeof credentials);
      credentials.uid = static_cast<uid_t>(syscall(SYS_geteuid));
      std::memcpy(CMSG_DATA(&one), &credentials, sizeof credentials);
    });
  }
  return call(fd, message, flags);
}
