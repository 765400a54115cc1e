#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>

#include "base/time.h"
#include "base/types.h"
#include "region/adoption/memory_file.h"
#include "region/region_table.h"

namespace verbatim::adapter {

/// Decides when registered memory moves into the memory file. Registering moves nothing: the kernel
/// copies for peers (process_vm_writev(2)). When a region's peers have paid for that what moving
/// would cost (region::Backing), they ask the owner, whose background thread moves the region's
/// whole pages. So memory that no peer uses, or only now and then, costs nothing.
///
/// Nothing may write to a page that is being copied: threads are stopped by the memory file, peers
/// by `ArenaHeader::moves_memory`. Thread-safe.
class Adoption {
 public:
  /// `moves`: the flag in the arena. `await_peers` returns true when each peer that copied before
  /// the call has ended its copy; false at the deadline. Both are used in `moves` alone.
  Adoption(region::MemoryFile& memory, region::RegionTable& table, std::atomic<bool>& moves,
           std::function<bool(TimeNs)> await_peers);
  Adoption(const Adoption&) = delete;
  Adoption& operator=(const Adoption&) = delete;
  ~Adoption();

  /// What a new region's backing is: nothing has moved, unless it is memory of the file.
  region::Backing backing_of(const region::Region& region);
  /// Memory of the file, to which peers have access as soon as it is registered.
  region::MemoryFile& memory() { return memory_; }
  /// Peers ask for the region's memory. Cheap; the background thread calls `step` then.
  void want(MemoryKey key);
  /// Moves a part of what is wanted. Returns true if there is more to do now. Takes some
  /// milliseconds; nothing while another thread moves memory, for peers ask again.
  bool step();
  /// The table does not have the region any more, or has other memory for its key: moves back what
  /// has moved.
  void forget(MemoryKey key);
  /// The same, and `change` changes the table; it returns false if it has not.
  template <typename Change>
  auto exchange(MemoryKey key, Change change) {
    const std::lock_guard guard(lock_);
    auto changed = change();
    if (changed) release(key);
    return changed;
  }

 private:
  MemoryKey first_wanted();
  void end_wish(MemoryKey key);
  bool move_more(MemoryKey key);
  void release(MemoryKey key);

  region::MemoryFile& memory_;
  region::RegionTable& table_;
  std::mutex lock_;                               // Held while memory moves. Protects moved_.
  std::map<MemoryKey, region::PageRange> moved_;  // The parts of regions that are in the file.
  std::mutex wanted_lock_;                        // Protects wanted_. A leaf.
  std::deque<MemoryKey> wanted_;
};

}  // namespace verbatim::adapter
