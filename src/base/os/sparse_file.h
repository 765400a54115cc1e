#pragma once

#include <cstdint>

#include "base/error.h"
#include "base/os/unique_fd.h"

namespace verbatim {

/// A memfd of that size without any memory yet, sealed: whoever has it too can neither cut it off
/// under our feet nor make it grow. EFBIG under a file size limit (ulimit -f); ENOMEM, EMFILE and
/// what else the kernel says.
Result<UniqueFd> create_sparse_file(const char* name, std::uint64_t bytes);

}  // namespace verbatim
