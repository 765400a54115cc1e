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

/// The shared arena of one process: everything that peers access on the direct path, with offsets
/// instead of pointers, in a memfd that the agent and peers can map (docs/design.md, 4).
namespace verbatim::arena {

/// Returns the inode of this process's pid namespace.
std::uint64_t own_pid_namespace();

/// Owns the memfd and its mapping. It is sparse: memory is used when it is touched, and returned
/// (by punching a hole) when a block of a page or more is freed. Blocks of which little was written
/// are cleared instead, up to a bound: to punch a hole costs a system call, and what is written
/// next a page fault here and in each peer. Thread-safe.
///
/// A forked child does not inherit the mapping, else both would write the same queues. In a child,
/// touching the arena is a fault until `abandon_in_child`, `allocate` fails and freeing does
/// nothing.
class Arena {
 public:
  /// Fails with ENOMEM, EMFILE, EFBIG and other errors of the kernel, with a text.
  static Result<std::unique_ptr<Arena>> create();
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  int fd() const { return fd_.get(); }
  std::byte* base() const { return base_; }  // The address in this process.
  ArenaHeader& header() { return *reinterpret_cast<ArenaHeader*>(base_); }
  QueuePairRecord& queue_pair(std::uint32_t local_number);
  DirectTarget& target(std::uint32_t local_number);
  XrcQueue& xrc_queue(SrqNumber number);

  /// Called in a forked child: replaces the arena by private zero pages, in which queues are empty
  /// and accept nothing. A few system calls, safe in a pthread_atfork handler. If the kernel
  /// refuses the address space, touching the arena stays a fault.
  void abandon_in_child();

  /// Returns zeroed memory, aligned to 64 bytes; from a page on, to a page. ENOMEM if the arena is
  /// full.
  Result<Offset<std::byte>> allocate(std::size_t bytes);
  /// `written`: behind as many bytes the block is as zero as it was allocated.
  void free(Offset<std::byte> at, std::size_t bytes, std::size_t written = SIZE_MAX);
  template <typename T>
  T* at(Offset<T> offset) {
    return reinterpret_cast<T*>(base_ + offset.value);
  }

 private:
  Arena() = default;
  /// A free block with pages that it still has, and an upper bound of these.
  struct Kept {
    std::uint64_t at = 0;
    std::size_t bytes = 0;
  };

  bool is_ours() const;  // False in a forked child.
  bool may_keep(std::size_t bytes);
  void lay_out(std::uint64_t secret);
  Result<std::uint64_t> carve(std::size_t block_bytes);
  Result<std::uint64_t> carve_pages(std::size_t block_bytes);

  UniqueFd fd_;
  int process_id_ = 0;
  std::byte* base_ = nullptr;
  std::mutex lock_;               // Protects the members below.
  std::uint64_t next_ = 0;        // Unused from here on; a multiple of the page size.
  std::uint64_t accessible_ = 0;  // Mapped readable and writable up to here.
  std::uint64_t small_next_ = 0;  // The chunk of which blocks below a page are cut.
  std::uint64_t small_end_ = 0;
  // By rounded size: those without pages, or smaller than one; and those that are given out first.
  std::map<std::size_t, std::vector<std::uint64_t>> free_;
  std::map<std::size_t, std::vector<Kept>> kept_;
  std::size_t kept_bytes_ = 0;  // Of all in `kept_`.
};

}  // namespace verbatim::arena
