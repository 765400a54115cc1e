#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "adapter/queues/completion_queue.h"
#include "arena/arena.h"
#include "arena/target.h"
#include "base/always_inline.h"
#include "base/error.h"
#include "base/os/process_token.h"
#include "base/os/unique_fd.h"
#include "region/region_table.h"

namespace verbatim::adapter {

/// The descriptors by which a peer is reached.
struct PeerDescriptors {
  UniqueFd arena;
  UniqueFd memory;
  UniqueFd doorbell;
};

/// Another program (or this one) as the direct path sees it: its arena and its memory, mapped here.
/// Any thread.
class DirectPeer {
 public:
  /// Maps its arena. EPROTO if it is of another release; EXDEV if it is in another pid namespace;
  /// ESRCH if it has ended; EPERM if process_vm_readv(2) is refused, the way to memory that is not
  /// in its memory file; and what mmap(2) and pidfd_open(2) say (ENOMEM, EMFILE).
  static Result<std::shared_ptr<DirectPeer>> map(PeerDescriptors descriptors);
  /// This program itself: its memory is where it is. EMFILE.
  static Result<std::shared_ptr<DirectPeer>> own(Arena& arena, const UniqueFd& doorbell);
  ~DirectPeer();
  DirectPeer(const DirectPeer&) = delete;
  DirectPeer& operator=(const DirectPeer&) = delete;

  bool is_own() const { return is_own_; }
  /// The process has ended. What it shared is still mapped.
  bool is_gone() const {
    return gone_.load(std::memory_order_relaxed) || header().liveness.has_ended();
  }
  void set_gone() { gone_.store(true, std::memory_order_relaxed); }
  int process_fd() const { return process_.get(); }  // A pidfd: readable when it has ended.
  std::uint64_t arena_inode() const { return arena_inode_; }

  std::byte* base() const { return base_; }
  ArenaHeader& header() const { return *reinterpret_cast<ArenaHeader*>(base_); }
  DirectTarget& target(std::uint32_t local_number) const;
  const region::RegionTable& regions() const { return *regions_; }
  template <typename T>
  T* at(Offset<T> offset) const {
    return reinterpret_cast<T*>(base_ + offset.value);
  }
  /// Checks that a queue pair, or an XRC queue, of this number is there.
  bool has(Qpn number) const;
  XrcQueue& xrc_queue(SrqNumber number) const;
  /// The target's owner hears of it.
  void notify(std::uint32_t local_number, std::uint32_t notifications) const;
  /// As does the owner of the queue that the target's receives are from, where that has one.
  void notify_receive_owner(std::uint32_t local_number, std::uint32_t notifications) const;
  /// The receive that the target holds ends with this completion, and whoever waits hears of it.
  /// False: there is no room for it. The target's lock is held.
  bool end_receive(std::uint32_t local_number, const Completion& completion, bool solicited) const;

  /// The memory file is mapped in pieces of this size, when they are first touched.
  static constexpr std::uint64_t kWindowBytes = std::uint64_t{1} << 30;
  /// Bytes of a region that lie together: where they are mapped here, or that they are not.
  struct Run {
    std::byte* here = nullptr;  // Null: `copy_by_kernel` is the only way.
    std::uint64_t length = 0;   // At most what was asked for, and at least 1.
  };
  /// The last window that was used: each user has one of its own, so that they share nothing.
  struct WindowCache {
    std::uint64_t number = ~std::uint64_t{0};
    std::byte* base = nullptr;
  };
  /// From `address` of the peer's address space on. The region is being visited.
  Run find(const region::Region& region, std::uint64_t address, std::uint64_t length,
           WindowCache& cache) const {
    constexpr std::uint32_t kNotHere = region::kOnDemand | region::kImported;
    if ((region.access & kNotHere) != 0) return {nullptr, length};
    if (is_own_) return {reinterpret_cast<std::byte*>(address), length};  // NOLINT
    // Mostly the whole of it lies in the window that was used last.
    const region::Extent& first = region.backing.first;
    const std::uint64_t within = address - first.address;
    const std::uint64_t offset = first.offset + within;
    const bool is_near = within < first.length && length <= first.length - within &&
                         offset / kWindowBytes == cache.number && cache.base != nullptr &&
                         offset % kWindowBytes + length <= kWindowBytes;
    if (is_near) return {cache.base + offset % kWindowBytes, length};
    return find_extent(region, address, length, cache);
  }
  /// Between memory here and memory of the peer. False where some of it is not mapped there.
  bool copy_by_kernel(std::byte* here, std::uint64_t there, std::uint64_t length,
                      bool to_peer) const;

 private:
  DirectPeer() = default;
  void post(LocalNumberBitmap& bitmap, std::uint32_t local_number,
            std::atomic<std::uint32_t>& place, std::uint32_t notifications) const;
  Result<void> attach(PeerDescriptors descriptors);
  void announce() const;
  Run find_extent(const region::Region& region, std::uint64_t address, std::uint64_t length,
                  WindowCache& cache) const;
  std::byte* window(std::uint64_t number) const;

  bool is_own_ = false;
  std::atomic<bool> gone_{false};
  std::byte* base_ = nullptr;
  std::uint64_t arena_inode_ = 0;
  ProcessToken token_ = 0;
  UniqueFd process_;
  UniqueFd memory_;
  UniqueFd doorbell_;
  std::unique_ptr<region::RegionTable> regions_;
  mutable std::mutex lock_;  // Guards windows_.
  mutable std::unordered_map<std::uint64_t, std::byte*> windows_;
};

VERBATIM_ALWAYS_INLINE bool DirectPeer::end_receive(std::uint32_t local_number,
                                                    const Completion& completion,
                                                    bool solicited) const {
  using Added = CompletionRing::Added;
  DirectTarget& served = target(local_number);
  const Added added =
      at(served.receive_cq)->add(base_, completion, solicited, &served.holds_receive);
  if (added == Added::no_event) return true;
  if (added == Added::overrun_now) served.holds_receive.store(false, std::memory_order_release);
  notify_receive_owner(local_number,
                       added == Added::overrun_now ? kCompletionsOverrun : kReceiveCompleted);
  return added != Added::overrun_now;
}

}  // namespace verbatim::adapter
