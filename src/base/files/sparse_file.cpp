#include "base/files/sparse_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace verbatim {

Result<UniqueFd> create_sparse_file(const char* name, std::uint64_t bytes) {
  rlimit file_size{};
  if (getrlimit(RLIMIT_FSIZE, &file_size) == 0 && file_size.rlim_cur < bytes) {
    // Checked here, because ftruncate beyond the limit raises the signal SIGXFSZ.
    return refuse(EFBIG, fmt::format("{}: the file size limit (ulimit -f) is {} bytes; {} are "
                                     "needed",
                                     name, file_size.rlim_cur, bytes));
  }
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  UniqueFd fd(memfd_create(name, kFlags | MFD_NOEXEC_SEAL));
  if (!fd && errno == EINVAL) fd.reset(memfd_create(name, kFlags));  // Before Linux 6.3.
  if (!fd) return refuse_errno("memfd_create");
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 ||
      fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return refuse_errno("sizing the memfd");
  }
  return fd;
}

bool keeps_bytes(int file, std::uint64_t offset, std::uint64_t bytes) {
  const int seals = fcntl(file, F_GET_SEALS);
  struct stat found{};
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(file, &found) != 0) return false;
  const auto size = static_cast<std::uint64_t>(found.st_size);
  return offset <= size && bytes <= size - offset;
}

}  // namespace verbatim
