#pragma once

#include <cstdint>

#include "base/error.h"
#include "dropin/ibverbs/objects.h"

/// The `ibv_wr_*` calls of extended queue pairs.
namespace verbatim::dropin {

/// Returns `1 << Operation` for each of `send_ops_flags`. EOPNOTSUPP for operations that queue
/// pairs of this type do not have: the program would call a null pointer.
Result<std::uint64_t> to_operations(adapter::QpType type, bool is_iwarp,
                                    std::uint64_t send_ops_flags);

/// Makes the queue pair an extended one: sets its batch and the functions that programs call.
void extend(QueuePair& queue_pair, std::uint64_t operations);

}  // namespace verbatim::dropin
