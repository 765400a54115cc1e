#pragma once

#include <cerrno>
#include <cstddef>
#include <memory>
#include <utility>

#include <infiniband/verbs.h>

#include "dropin/ibverbs/services.h"
#include "ulp/rsocket/protocol.h"

namespace verbatim::rsocket {

/// Pages registered with the adapter.
class Memory {
 public:
  Memory() = default;
  /// Pages of its own, zeroed.
  static Outcome<Memory> make(ibv_pd* pd, std::size_t bytes, int access) {
    const VerbatimServices* const services = verbatim_services(dropin::kServicesVersion);
    if (services == nullptr) return fail(ENOSYS);
    void* const at = services->take_pages(bytes);
    if (at == nullptr) return fail(errno);
    auto memory = over(pd, static_cast<std::byte*>(at), bytes, access);
    if (memory) {
      memory->owner_ = services;
    } else {
      services->give_pages_back(at, bytes);
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
    std::swap(owner_, other.owner_);
    return *this;
  }
  ~Memory() {
    if (region_ != nullptr) ibv_dereg_mr(region_);
    if (owner_ != nullptr) owner_->give_pages_back(data_, bytes_);
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
  const VerbatimServices* owner_ = nullptr;  // Of the pages; null: somebody else.
};

/// A part of memory that is registered as a whole, for local use.
class Part {
 public:
  Part() = default;
  Part(std::byte* at, std::uint32_t lkey) : data_(at), lkey_(lkey) {}
  std::byte* data() const { return data_; }
  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(data_); }
  std::uint32_t lkey() const { return lkey_; }

 private:
  std::byte* data_ = nullptr;
  std::uint32_t lkey_ = 0;
};

/// Pages for one stream's buffers. Streams share chunks, of the adapter's own memory, so that
/// nothing has to move for them. The chunk is registered for what the stream sends. What the
/// stream's peer writes to, and receives, the stream registers itself: the peer can reach nothing
/// else, and the place is free again only when a peer that was stopped has ended its copying.
class Pages {
 public:
  static Outcome<std::shared_ptr<Pages>> take(ibv_pd* pd, std::size_t bytes);
  virtual ~Pages() = default;
  virtual std::byte* data() const = 0;
  virtual std::uint32_t lkey() const = 0;
};

}  // namespace verbatim::rsocket
