/// The calls on descriptors of devices of storage initiators, interposed: those of other
/// descriptors go to the C library.
#include <cerrno>
#include <cstdarg>
#include <cstddef>

#include <sys/types.h>
#include <unistd.h>

#include "dropin/view/connection.h"
#include "dropin/view/device.h"
#include "dropin/view/next.h"

using verbatim::view::kAtPosition;
using verbatim::view::kind_of;
using verbatim::view::Opened;
using verbatim::view::read_device;
using verbatim::view::seek_device;
using verbatim::view::write_device;

namespace {

bool is_block(int fd) { return kind_of(fd) == Opened::block_device; }

/// -1 means the position to us.
template <typename Call>
ssize_t at(off_t offset, Call call) {
  if (offset < 0) return errno = EINVAL, -1;
  return call(offset);
}

}  // namespace

VERBATIM_EXPORT ssize_t read(int fd, void* bytes, std::size_t size) {
  VERBATIM_NEXT(call, "read", ssize_t(int, void*, std::size_t));
  if (is_block(fd)) return read_device(fd, bytes, size, kAtPosition);
  return call(fd, bytes, size);
}

VERBATIM_EXPORT ssize_t __read_chk(int fd, void* bytes, std::size_t size, std::size_t room) {
  VERBATIM_NEXT(call, "__read_chk", ssize_t(int, void*, std::size_t, std::size_t));
  if (is_block(fd) && size <= room) return read_device(fd, bytes, size, kAtPosition);
  return call(fd, bytes, size, room);
}

#define VERBATIM_PREAD(NAME, OFFSET)                                                     \
  VERBATIM_EXPORT ssize_t NAME(int fd, void* bytes, std::size_t size, OFFSET offset) {   \
    VERBATIM_NEXT(call, #NAME, ssize_t(int, void*, std::size_t, OFFSET));                \
    if (!is_block(fd)) return call(fd, bytes, size, offset);                             \
    return at(offset, [&](off_t place) { return read_device(fd, bytes, size, place); }); \
  }
VERBATIM_PREAD(pread, off_t)
VERBATIM_PREAD(pread64, off64_t)

#define VERBATIM_PWRITE(NAME, OFFSET)                                                        \
  VERBATIM_EXPORT ssize_t NAME(int fd, const void* bytes, std::size_t size, OFFSET offset) { \
    VERBATIM_NEXT(call, #NAME, ssize_t(int, const void*, std::size_t, OFFSET));              \
    if (!is_block(fd)) return call(fd, bytes, size, offset);                                 \
    return at(offset, [&](off_t place) { return write_device(fd, bytes, size, place); });    \
  }
VERBATIM_PWRITE(pwrite, off_t)
VERBATIM_PWRITE(pwrite64, off64_t)

#define VERBATIM_SEEK(NAME, OFFSET)                                \
  VERBATIM_EXPORT OFFSET NAME(int fd, OFFSET offset, int whence) { \
    VERBATIM_NEXT(call, #NAME, OFFSET(int, OFFSET, int));          \
    if (is_block(fd)) return seek_device(fd, offset, whence);      \
    return call(fd, offset, whence);                               \
  }
VERBATIM_SEEK(lseek, off_t)
VERBATIM_SEEK(lseek64, off64_t)

#define VERBATIM_SYNC(NAME)                                            \
  VERBATIM_EXPORT int NAME(int fd) {                                   \
    VERBATIM_NEXT(call, #NAME, int(int));                              \
    return is_block(fd) ? verbatim::view::flush_device(fd) : call(fd); \
  }
VERBATIM_SYNC(fsync)
VERBATIM_SYNC(fdatasync)
