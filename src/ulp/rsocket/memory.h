#pragma once

#include <cerrno>
#include <cstddef>
#include <memory>
#include <utility>

#include <infiniband/verbs.h>
#include <sys/mman.h>

#include "ulp/rsocket/protocol.h"

namespace verbatim::rsocket {

/// Pages registered with the adapter.
class Memory {
 public:
  Memory() = default;
  /// Pages of its own, zeroed.
  static Outcome<Memory> make(ibv_pd* pd, std::size_t bytes, int access) {
    void* at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return fail(errno);
    auto memory = over(pd, static_cast<std::byte*>(at), bytes, access);
    if (memory) {
      memory->owns_pages_ = true;
    } else {
      munmap(at, bytes);
    }
    return memory;
  }
  /// Pages of somebody else.
  static Outcome<Memory> over(ibv_pd* pd, std::byte* at, std::size_t bytes, int access) {
    Memory memory;
    memory.data_ = at;
    memory.bytes_ = bytes;
    memory.region_ = ibv_reg_mr(pd, at, bytes, access | IBV_ACCESS_LOCAL_WRITE);
    if (memory.region_ == nullptr) return fail(errno);
    return memory;
  }
  Memory(Memory&& other) noexcept { *this = std::move(other); }
  Memory& operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(region_, other.region_);
    std::swap(owns_pages_, other.owns_pages_);
    return *this;
  }
  ~Memory() {
    if (region_ != nullptr) ibv_dereg_mr(region_);
    if (owns_pages_) munmap(data_, bytes_);
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
  bool owns_pages_ = false;
};

/// Pages for one stream's buffers. The adapter adopts pages at their first registration and gives
/// them back with their last, and both look at all descriptors of the process. So streams share
/// chunks, which stay registered as a whole, for nobody but ourselves, as long as one of them uses
/// them; the stream's own registrations within are cheap, and its peer can reach these alone.
class Pages {
 public:
  static Outcome<std::shared_ptr<Pages>> take(ibv_pd* pd, std::size_t bytes);
  virtual ~Pages() = default;
  virtual std::byte* data() const = 0;
};

}  // namespace verbatim::rsocket
