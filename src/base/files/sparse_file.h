#pragma once

#include <cstdint>

#include "base/error.h"
#include "base/os/unique_fd.h"

namespace verbatim {

/// Creates a sparse memfd of `bytes`, sealed against shrinking and growing, so that a process that
/// shares it cannot truncate it under a mapping. EFBIG under a file size limit (ulimit -f), ENOMEM,
/// EMFILE and other errors of memfd_create and ftruncate.
Result<UniqueFd> create_sparse_file(const char* name, std::uint64_t bytes);

/// Whether another process's file has these bytes for ever. Else an access to a mapping of it may
/// end this process (SIGBUS).
bool keeps_bytes(int file, std::uint64_t offset, std::uint64_t bytes);

}  // namespace verbatim
