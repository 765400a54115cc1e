#pragma once

#include <cerrno>
#include <cstddef>
#include <utility>

#include <infiniband/verbs.h>
#include <sys/mman.h>

#include "ulp/rsocket/protocol.h"

namespace verbatim::rsocket {

/// Zeroed pages registered with the adapter.
class Memory {
 public:
  Memory() = default;
  static Outcome<Memory> make(ibv_pd* pd, std::size_t bytes, int access) {
    Memory memory;
    memory.bytes_ = bytes;
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return fail(errno);
    memory.data_ = static_cast<std::byte*>(at);
    memory.region_ = ibv_reg_mr(pd, at, bytes, access | IBV_ACCESS_LOCAL_WRITE);
    if (memory.region_ == nullptr) return fail(errno);
    return memory;
  }
  Memory(Memory&& other) noexcept { *this = std::move(other); }
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(region_, other.region_);
    return *this;
  }
  ~Memory() {
    if (region_ != nullptr) ibv_dereg_mr(region_);
    if (data_ != nullptr) munmap(data_, bytes_);
  }

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(data_); }
  std::uint32_t lkey() const { return region_->lkey; }
  std::uint32_t rkey() const { return region_->rkey; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  ibv_mr* region_ = nullptr;
};

}  // namespace verbatim::rsocket
