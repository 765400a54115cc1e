#pragma once

#include <array>
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

/// The descriptors needed to map a peer.
struct PeerDescriptors {
  UniqueFd arena;
  UniqueFd memory;
  UniqueFd doorbell;
};

/// Another process (or this one) on the direct path: its arena and its memory file, mapped here.
/// Any thread.
class DirectPeer {
 public:
  /// Maps the peer's arena. EPROTO if it is of another release; EXDEV if it is in another pid
  /// namespace; ESRCH if the peer has ended; EPERM if process_vm_readv(2) is refused, which is
  /// needed for memory outside the memory file; and errors of mmap(2) and pidfd_open(2) (ENOMEM,
  /// EMFILE).
  static Result<std::shared_ptr<DirectPeer>> map(PeerDescriptors descriptors);
  /// Returns a DirectPeer for this process: nothing is mapped, addresses are used as they are.
  /// EMFILE.
  static Result<std::shared_ptr<DirectPeer>> own(Arena& arena, const UniqueFd& doorbell);
  ~DirectPeer();
  DirectPeer(const DirectPeer&) = delete;
  DirectPeer& operator=(const DirectPeer&) = delete;

  bool is_own() const { return is_own_; }
  /// Returns true if the process has ended. Its arena stays mapped.
  bool is_gone() const {
    return gone_.load(std::memory_order_relaxed) || header().liveness.has_ended();
  }
  void set_gone() { gone_.store(true, std::memory_order_relaxed); }
  int process_fd() const {
    return process_.get();
  }  // A pidfd: readable after the process has ended.
  std::uint64_t arena_inode() const { return arena_inode_; }

  std::byte* base() const { return base_; }
  ArenaHeader& header() const { return *reinterpret_cast<ArenaHeader*>(base_); }
  DirectTarget& target(std::uint32_t local_number) const;
  const region::RegionTable& regions() const { return *regions_; }
  template <typename T>
  T* at(Offset<T> offset) const {
    return reinterpret_cast<T*>(base_ + offset.value);
  }
  /// Returns true if queue pair or XRC queue `number` exists.
  bool has(Qpn number) const;
  XrcQueue& xrc_queue(SrqNumber number) const;
  /// Sets notification bits in the target and in the bitmap of targets, and writes the doorbell if
  /// the bitmap bit was clear. The owner's background thread then handles them. Any thread, no
  /// lock.
  void notify(std::uint32_t local_number, std::uint32_t notifications) const;
  /// Notifies the owner of the receive queue that the current request uses: the XRC shared receive
  /// queue, if the request named one, else the target. It is called instead of `notify`, not in
  /// addition.
  void notify_receive_owner(std::uint32_t local_number, std::uint32_t notifications) const;
  /// Completes the target's current receive: adds `completion` to its receive CQ and clears
  /// `holds_receive`. Notifies the owner if the CQ was armed for it, or if it is overrun. Returns
  /// false if the CQ is full or was overrun before; the receive is then lost. Requires the target's
  /// lock.
  bool end_receive(std::uint32_t local_number, const Completion& completion, bool solicited) const;

  /// The memory file is mapped in windows of this size, at their first use.
  static constexpr std::uint64_t kWindowBytes = std::uint64_t{1} << 30;
  /// A contiguous run of a region's bytes.
  struct Run {
    // Address in this process; null: only `copy_by_kernel` reaches them.
    std::byte* here = nullptr;
    std::uint64_t length = 0;  // At least 1, at most the wanted length.
  };
  /// Caches the last windows of the peer's memory file. One per user, so that threads share no
  /// cache line.
  struct WindowCache {
    struct Other {
      std::uint64_t number = ~std::uint64_t{0};
      std::byte* base = nullptr;
    };
    std::uint64_t number = ~std::uint64_t{0};  // The last one.
    std::byte* base = nullptr;
    std::array<Other, 4> others{};  // Used before.
    unsigned next = 0;
  };
  /// Returns a contiguous run of the region from `address` (of the peer's process) on, at most
  /// `length` bytes. `here` is null if this run is not mapped here (on-demand or imported memory,
  /// or pages that have not moved into the memory file): use copy_by_kernel. Requires the lock
  /// under which `region` was looked up.
  Run find(const region::Region& region, std::uint64_t address, std::uint64_t length,
           WindowCache& cache) const {
    constexpr std::uint32_t kNotHere = region::kOnDemand | region::kImported;
    if ((region.access & kNotHere) != 0) return {nullptr, length};
    if (is_own_) return {reinterpret_cast<std::byte*>(address), length};  // NOLINT
    // Usually all of it is in the window used last.
    const std::uint64_t moved = region.backing.moved();
    const std::uint64_t within = address - region.backing.address;
    const bool is_near = within < moved && length <= moved - within &&
                         address / kWindowBytes == cache.number && cache.base != nullptr &&
                         address % kWindowBytes + length <= kWindowBytes;
    if (is_near) return {cache.base + address % kWindowBytes, length};
    return find_moved(region, address, length, cache);
  }
  /// Copies between `here` and address `there` of the peer with process_vm_readv/writev(2). Returns
  /// false if a page is not mapped in the peer; a part may have been copied.
  bool copy_by_kernel(std::byte* here, std::uint64_t there, std::uint64_t length,
                      bool to_peer) const;
  /// Returns true if the kernel must not copy now (`ArenaHeader::moves_memory`). Requires a
  /// target's lock.
  bool moves_memory() const { return header().moves_memory.load(std::memory_order_seq_cst); }

 private:
  DirectPeer() = default;
  void post(LocalNumberBitmap& bitmap, std::uint32_t local_number,
            std::atomic<std::uint32_t>& place, std::uint32_t notifications) const;
  Result<void> attach(PeerDescriptors descriptors);
  void announce() const;
  Run find_moved(const region::Region& region, std::uint64_t address, std::uint64_t length,
                 WindowCache& cache) const;
  std::byte* window(std::uint64_t number) const;
  std::byte* window(std::uint64_t number, WindowCache& cache) const;

  bool is_own_ = false;
  std::atomic<bool> gone_{false};
  std::byte* base_ = nullptr;
  std::uint64_t arena_inode_ = 0;
  ProcessToken token_ = 0;
  UniqueFd process_;
  UniqueFd memory_;
  UniqueFd doorbell_;
  std::unique_ptr<region::RegionTable> regions_;
  mutable std::mutex lock_;  // Protects windows_.
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
