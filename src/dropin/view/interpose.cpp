/// The path calls of the C library, interposed: each redirects paths of the view and calls the next
/// function of its name. Programs built with old C libraries call __xstat and similar ones;
/// programs built with fortification call names that end in _2 and _chk.
#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>

#include "dropin/view/initiator.h"
#include "dropin/view/next.h"
#include "dropin/view/redirect.h"
#include "dropin/view/tree.h"

namespace {

using verbatim::view::kind_of_path;
using verbatim::view::Opened;
using verbatim::view::Redirected;
using verbatim::view::refuses_writing;
using verbatim::view::TreePath;

bool takes_mode(int flags) { return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE; }

bool writes(int flags) {
  return (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC)) != 0;
}
bool writes(const char* mode) { return std::strpbrk(mode, "wa+") != nullptr; }

mode_t mode_of(int flags, va_list arguments) {
  return takes_mode(flags) ? va_arg(arguments, mode_t) : 0;
}

/// `next`: the C library's call, for another path.
template <typename Next>
int open_any(int folder, const char* path, int flags, Next next) {
  const TreePath inside(folder, path);
  if (inside.is_ours() && (flags & (O_DIRECTORY | O_PATH)) == 0) {
    if (writes(flags)) return verbatim::view::open_to_write(inside, flags);
    const int fd = verbatim::view::open_to_read(inside, flags);
    if (fd >= 0 || errno != EISDIR) return fd;
  }
  if (const Opened kind = kind_of_path(path, writes(flags));
      kind != Opened::nothing && (flags & O_PATH) == 0)
    return verbatim::view::open_of_initiator(path, flags, kind);
  const Redirected file(path);
  if (writes(flags) && refuses_writing(file)) return -1;
  return next(file.path());
}

FILE* stream_of(const TreePath& inside, const char* mode) {
  const int fd = writes(mode) ? verbatim::view::open_to_write(inside, O_CREAT)
                              : verbatim::view::open_to_read(inside, 0);
  if (fd < 0) return nullptr;
  return writes(mode) ? verbatim::view::stream_to_write(fd) : fdopen(fd, "r");
}

FILE* stream_to_attribute(const char* path) {
  const int fd = verbatim::view::open_of_initiator(path, 0, Opened::attribute);
  return fd < 0 ? nullptr : verbatim::view::stream_to_write(fd);
}

/// `info` tells of a file of devices, which a plain one stands for.
template <typename Info>
void mark_type(const char* path, Info& info) {
  mode_t mode = info.st_mode;
  verbatim::view::mark_device(kind_of_path(path, false), mode);
  info.st_mode = mode;
}

}  // namespace

// Defines two functions of the same shape: the plain name, and the one for large files.

#define VERBATIM_OPEN(NAME)                                                  \
  VERBATIM_EXPORT int NAME(const char* path, int flags, ...) {               \
    va_list arguments;                                                       \
    va_start(arguments, flags);                                              \
    const mode_t mode = mode_of(flags, arguments);                           \
    va_end(arguments);                                                       \
    VERBATIM_NEXT(call, #NAME, int(const char*, int, ...));                  \
    const auto next = [&](const char* at) { return call(at, flags, mode); }; \
    return open_any(AT_FDCWD, path, flags, next);                            \
  }
VERBATIM_OPEN(open)
VERBATIM_OPEN(open64)

#define VERBATIM_OPENAT(NAME)                                                        \
  VERBATIM_EXPORT int NAME(int folder, const char* path, int flags, ...) {           \
    va_list arguments;                                                               \
    va_start(arguments, flags);                                                      \
    const mode_t mode = mode_of(flags, arguments);                                   \
    va_end(arguments);                                                               \
    VERBATIM_NEXT(call, #NAME, int(int, const char*, int, ...));                     \
    const auto next = [&](const char* at) { return call(folder, at, flags, mode); }; \
    return open_any(folder, path, flags, next);                                      \
  }
VERBATIM_OPENAT(openat)
VERBATIM_OPENAT(openat64)

/// For functions whose only path is the first argument, and for those whose path is the second.
#define VERBATIM_PATH_FIRST(RESULT, NAME, DECLARED, PASSED)                   \
  VERBATIM_EXPORT RESULT NAME(const char* path VERBATIM_UNPACK DECLARED) {    \
    VERBATIM_NEXT(call, #NAME, RESULT(const char* VERBATIM_UNPACK DECLARED)); \
    return call(Redirected(path).path() VERBATIM_UNPACK PASSED);              \
  }
#define VERBATIM_PATH_SECOND(RESULT, NAME, FIRST, DECLARED, PASSED)                     \
  VERBATIM_EXPORT RESULT NAME(FIRST first, const char* path VERBATIM_UNPACK DECLARED) { \
    VERBATIM_NEXT(call, #NAME, RESULT(FIRST, const char* VERBATIM_UNPACK DECLARED));    \
    return call(first, Redirected(path).path() VERBATIM_UNPACK PASSED);                 \
  }
#define VERBATIM_UNPACK(...) __VA_OPT__(, ) __VA_ARGS__

/// The same for those that open a file which exists.
#define VERBATIM_OPEN_FIRST(NAME)                                                            \
  VERBATIM_EXPORT int NAME(const char* path, int flags) {                                    \
    VERBATIM_NEXT(call, #NAME, int(const char*, int));                                       \
    return open_any(AT_FDCWD, path, flags, [&](const char* at) { return call(at, flags); }); \
  }
#define VERBATIM_OPEN_SECOND(NAME)                                                                 \
  VERBATIM_EXPORT int NAME(int folder, const char* path, int flags) {                              \
    VERBATIM_NEXT(call, #NAME, int(int, const char*, int));                                        \
    return open_any(folder, path, flags, [&](const char* at) { return call(folder, at, flags); }); \
  }
VERBATIM_OPEN_FIRST(__open_2)
VERBATIM_OPEN_FIRST(__open64_2)
VERBATIM_OPEN_SECOND(__openat_2)
VERBATIM_OPEN_SECOND(__openat64_2)

#define VERBATIM_FOPEN(NAME)                                                                     \
  VERBATIM_EXPORT FILE* NAME(const char* path, const char* mode) {                               \
    VERBATIM_NEXT(call, #NAME, FILE*(const char*, const char*));                                 \
    const TreePath inside(AT_FDCWD, path);                                                       \
    if (inside.is_ours()) return stream_of(inside, mode);                                        \
    if (kind_of_path(path, writes(mode)) == Opened::attribute) return stream_to_attribute(path); \
    const Redirected file(path);                                                                 \
    if (writes(mode) && refuses_writing(file)) return nullptr;                                   \
    return call(file.path(), mode);                                                              \
  }
VERBATIM_FOPEN(fopen)
VERBATIM_FOPEN(fopen64)
VERBATIM_PATH_FIRST(DIR*, opendir, (), ())

using Selector = int (*)(const dirent*);
using Order = int (*)(const dirent**, const dirent**);
VERBATIM_PATH_FIRST(int, scandir, (dirent * **names, Selector selector, Order order),
                    (names, selector, order))
using Selector64 = int (*)(const dirent64*);
using Order64 = int (*)(const dirent64**, const dirent64**);
VERBATIM_PATH_FIRST(int, scandir64, (dirent64 * **names, Selector64 selector, Order64 order),
                    (names, selector, order))

#define VERBATIM_STAT(NAME, INFO)                           \
  VERBATIM_EXPORT int NAME(const char* path, INFO* info) {  \
    VERBATIM_NEXT(call, #NAME, int(const char*, INFO*));    \
    const int result = call(Redirected(path).path(), info); \
    if (result == 0) mark_type(path, *info);                \
    return result;                                          \
  }
VERBATIM_STAT(stat, struct stat)
VERBATIM_STAT(stat64, struct stat64)
VERBATIM_STAT(lstat, struct stat)
VERBATIM_STAT(lstat64, struct stat64)

#define VERBATIM_FSTATAT(NAME, INFO)                                              \
  VERBATIM_EXPORT int NAME(int folder, const char* path, INFO* info, int flags) { \
    VERBATIM_NEXT(call, #NAME, int(int, const char*, INFO*, int));                \
    const int result = call(folder, Redirected(path).path(), info, flags);        \
    if (result == 0) mark_type(path, *info);                                      \
    return result;                                                                \
  }
VERBATIM_FSTATAT(fstatat, struct stat)
VERBATIM_FSTATAT(fstatat64, struct stat64)
VERBATIM_PATH_SECOND(int, statx, int, (int flags, unsigned mask, struct statx* info),
                     (flags, mask, info))
VERBATIM_PATH_SECOND(int, __xstat, int, (struct stat * info), (info))
VERBATIM_PATH_SECOND(int, __xstat64, int, (struct stat64 * info), (info))
VERBATIM_PATH_SECOND(int, __lxstat, int, (struct stat * info), (info))
VERBATIM_PATH_SECOND(int, __lxstat64, int, (struct stat64 * info), (info))

#define VERBATIM_FXSTATAT(NAME, INFO)                                                          \
  VERBATIM_EXPORT int NAME(int version, int folder, const char* path, INFO* info, int flags) { \
    VERBATIM_NEXT(call, #NAME, int(int, int, const char*, INFO*, int));                        \
    return call(version, folder, Redirected(path).path(), info, flags);                        \
  }
VERBATIM_FXSTATAT(__fxstatat, struct stat)
VERBATIM_FXSTATAT(__fxstatat64, struct stat64)

VERBATIM_PATH_FIRST(int, access, (int mode), (mode))
VERBATIM_PATH_FIRST(int, eaccess, (int mode), (mode))
VERBATIM_PATH_FIRST(int, euidaccess, (int mode), (mode))
VERBATIM_PATH_SECOND(int, faccessat, int, (int mode, int flags), (mode, flags))
VERBATIM_PATH_FIRST(int, chdir, (), ())

VERBATIM_PATH_FIRST(ssize_t, readlink, (char* out, std::size_t size), (out, size))
VERBATIM_PATH_SECOND(ssize_t, readlinkat, int, (char* out, std::size_t size), (out, size))
VERBATIM_PATH_FIRST(ssize_t, __readlink_chk, (char* out, std::size_t size, std::size_t room),
                    (out, size, room))

VERBATIM_PATH_FIRST(int, statfs, (struct statfs * info), (info))
VERBATIM_PATH_FIRST(int, statfs64, (struct statfs64 * info), (info))
VERBATIM_PATH_FIRST(int, statvfs, (struct statvfs * info), (info))
VERBATIM_PATH_FIRST(int, statvfs64, (struct statvfs64 * info), (info))

VERBATIM_PATH_FIRST(ssize_t, getxattr, (const char* name, void* out, std::size_t size),
                    (name, out, size))
VERBATIM_PATH_FIRST(ssize_t, lgetxattr, (const char* name, void* out, std::size_t size),
                    (name, out, size))
VERBATIM_PATH_FIRST(ssize_t, listxattr, (char* out, std::size_t size), (out, size))
VERBATIM_PATH_FIRST(ssize_t, llistxattr, (char* out, std::size_t size), (out, size))

/// For functions that return a path: returned as the program knows it.
#define VERBATIM_RESOLVE(NAME, DECLARED, PASSED)                              \
  VERBATIM_EXPORT char* NAME(const char* path VERBATIM_UNPACK DECLARED) {     \
    VERBATIM_NEXT(call, #NAME, char*(const char* VERBATIM_UNPACK DECLARED));  \
    char* const found = call(Redirected(path).path() VERBATIM_UNPACK PASSED); \
    verbatim::view::strip_root(found);                                        \
    return found;                                                             \
  }
VERBATIM_RESOLVE(realpath, (char* out), (out))
VERBATIM_RESOLVE(__realpath_chk, (char* out, std::size_t room), (out, room))
VERBATIM_RESOLVE(canonicalize_file_name, (), ())
