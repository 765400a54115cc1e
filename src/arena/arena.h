#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "arena/arena_header.h"
#include "arena/offset.h"
#include "arena/target.h"
#include "arena/xrc_queue.h"
#include "base/error.h"
#include "base/os/unique_fd.h"
#include "base/types.h"

/// The shared arena of one process: everything that peers touch on the direct path lies in it, with
/// offsets instead of pointers, in a memfd that the agent and peers can map (docs/design.md, 4).
namespace verbatim::arena {

/// Of this process: the inode of its pid namespace.
std::uint64_t own_pid_namespace();

/// Owns the memfd and its mapping. Sparse: memory is used when it is touched, and given back (hole
/// punched) when a block of a page or more is freed. Thread-safe.
///
/// The mapping is not inherited by a forked child: both would write the same queues. In a child,
/// touching the arena is a fault until `abandon_in_child`, allocating is refused and freeing does
/// nothing.
class Arena {
 public:
  /// ENOMEM, EMFILE, EFBIG and what else the kernel says, in words.
  static Result<std::unique_ptr<Arena>> create();
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  int fd() const { return fd_.get(); }
  std::byte* base() const { return base_; }  // Where this process has it.
  ArenaHeader& header() { return *reinterpret_cast<ArenaHeader*>(base_); }
  QueuePairRecord& queue_pair(std::uint32_t local_number);
  DirectTarget& target(std::uint32_t local_number);
  XrcQueue& xrc_queue(SrqNumber number);

  /// In a child after fork: private zeroes where the arena was, so that its queues read as empty
  /// and take nothing. Safe in a pthread_atfork handler: a few system calls. Where the kernel
  /// refuses so much address space, touching stays a fault.
  void abandon_in_child();

  /// Zeroed memory, aligned to 64 bytes, and to a page from a page on. ENOMEM when the arena is
  /// full.
  Result<Offset<std::byte>> allocate(std::size_t bytes);
  void free(Offset<std::byte> at, std::size_t bytes);
  template <typename T>
  T* at(Offset<T> offset) {
    return reinterpret_cast<T*>(base_ + offset.value);
  }

 private:
  Arena() = default;
  bool is_ours() const;  // False in a forked child.
  void lay_out(std::uint64_t secret);
  Result<std::uint64_t> carve(std::size_t block_bytes);
  Result<std::uint64_t> carve_pages(std::size_t block_bytes);

  UniqueFd fd_;
  int process_id_ = 0;
  std::byte* base_ = nullptr;
  std::mutex lock_;               // Guards what follows.
  std::uint64_t next_ = 0;        // Never given out from here on; a multiple of the page size.
  std::uint64_t accessible_ = 0;  // Mapped readable and writable up to here.
  std::uint64_t small_next_ = 0;  // The chunk that blocks of less than a page are cut from.
  std::uint64_t small_end_ = 0;
  std::map<std::size_t, std::vector<std::uint64_t>> free_;  // By rounded size.
};

}  // namespace verbatim::arena
