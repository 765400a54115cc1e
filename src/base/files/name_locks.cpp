#include "base/files/name_locks.h"

#include <cstdint>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace verbatim {
namespace {

/// FNV-1a: gives the same byte in each process.
off_t byte_of(std::string_view name) {
  constexpr std::uint64_t kBasis = 0xcbf29ce484222325;
  constexpr std::uint64_t kPrime = 0x100000001b3;
  constexpr std::uint64_t kBytes = std::uint64_t{1} << 62;
  std::uint64_t hash = kBasis;
  for (const char letter : name) hash = (hash ^ static_cast<std::uint8_t>(letter)) * kPrime;
  return static_cast<off_t>(hash % kBytes);
}

struct flock lock_of(short type, off_t start, off_t length) {
  return {.l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = length, .l_pid = 0};
}

bool is_file_at(int fd, const std::string& path) {
  struct stat locked{}, present{};
  return fstat(fd, &locked) == 0 && stat(path.c_str(), &present) == 0 &&
         locked.st_ino == present.st_ino && locked.st_dev == present.st_dev;
}

}  // namespace

Result<UniqueFd> NameLocks::open() const {
  UniqueFd fd(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (fd) fchmod(fd.get(), 0600);  // Whatever the program's umask left.
  if (!fd) return refuse_errno("cannot open " + path_);
  return fd;
}

Result<UniqueFd> NameLocks::take(std::string_view name, Kind kind, TimeNs patience) const {
  const TimeNs deadline = monotonic_now() + patience;
  for (;;) {
    auto fd = open();
    if (!fd) return fd;
    struct flock lock = lock_of(kind == Kind::shared ? F_RDLCK : F_WRLCK, byte_of(name), 1);
    if (fcntl(fd->get(), F_OFD_SETLK, &lock) == 0) {
      if (is_file_at(fd->get(), path_)) return fd;
      continue;  // The file was removed before we had the lock.
    }
    if (errno != EAGAIN && errno != EACCES) return refuse_errno("cannot lock " + path_);
    if (monotonic_now() >= deadline) {
      return refuse(EWOULDBLOCK, fmt::format("'{}' is locked in {}", name, path_));
    }
    usleep(1000);  // The kernel cannot bound a wait for a lock without a signal.
  }
}

Result<bool> NameLocks::is_held(std::string_view name) const {
  const auto fd = open();
  if (!fd) return std::unexpected(fd.error());
  struct flock others = lock_of(F_WRLCK, byte_of(name), 1);
  if (fcntl(fd->get(), F_OFD_GETLK, &others) != 0) return refuse_errno("cannot look at " + path_);
  return others.l_type != F_UNLCK;
}

void NameLocks::remove_if_free() const {
  const UniqueFd fd(::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  struct flock all = lock_of(F_WRLCK, 0, 0);
  if (fd && fcntl(fd.get(), F_OFD_SETLK, &all) == 0 && is_file_at(fd.get(), path_)) {
    unlink(path_.c_str());
  }
}

}  // namespace verbatim
