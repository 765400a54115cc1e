#pragma once

#include <cstdint>

#include <infiniband/verbs.h>

namespace infinity::detail {

/// Zeroed and aligned as Configuration says; for free(). Throws, in the name of the class.
void* allocate(const char* of, std::uint64_t bytes);

/// Throws, in the name of the class.
ibv_mr* register_memory(const char* of, ibv_pd* domain, void* data, std::uint64_t bytes,
                        unsigned access);

inline constexpr unsigned kBufferAccess =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

}  // namespace infinity::detail
