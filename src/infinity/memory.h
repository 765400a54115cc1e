#pragma once

#include <cstdint>

#include <infiniband/verbs.h>

namespace infinity::detail {

/// Returns zeroed memory, aligned as Configuration says, for free(). Throws with the class's name.
void* allocate(const char* of, std::uint64_t bytes);

/// Throws with the class's name.
ibv_mr* register_memory(const char* of, ibv_pd* domain, void* data, std::uint64_t bytes,
                        unsigned access);

inline constexpr unsigned kBufferAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

}  // namespace infinity::detail
