#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "adapter/arena.h"
#include "adapter/direct_target.h"
#include "base/error.h"
#include "base/time.h"
#include "region/memory_file.h"
#include "region/region_table.h"

namespace verbatim::adapter {

/// When registered memory moves into the memory file. Registering moves nothing: peers reach the
/// pages by the kernel (process_vm_writev(2)), and the pages that they use again and again are what
/// the owner then moves, in its background thread. Memory that no peer uses costs nothing, neither
/// at registration nor at its end.
///
/// A page that moves is copied, so whoever writes to it meanwhile waits: threads by the memory
/// file's freeze, peers by `ArenaHeader::moves`. Where threads cannot be frozen everything moves at
/// registration. Thread-safe.
class Adoption {
 public:
  /// `await_copies` returns true if no peer copies by the kernel any more that began before it was
  /// called; false when that time has come.
  Adoption(region::MemoryFile& memory, Arena& arena, region::RegionTable& regions,
           std::function<bool(TimeNs)> await_copies);
  Adoption(const Adoption&) = delete;
  Adoption& operator=(const Adoption&) = delete;
  ~Adoption();

  /// Gives a region that is not in the table yet its backing: none if it can never move. ENOMEM.
  Result<void> prepare(region::Region& region);
  /// The region is in the table, with that key.
  void enter(MemoryKey key, const region::Backing& backing);
  /// The region `from` is going, and `to` has come: what has moved of both stays so.
  void carry_over(const region::Backing& from, const region::Backing& to);
  /// The region is not in the table any more: what has moved moves back, unless others use it.
  void leave(const region::Backing& backing);

  /// A peer uses these bytes.
  void move(const Reach& wanted);

 private:
  struct Memory;
  std::shared_ptr<Memory> find(std::uint64_t map);
  bool begin_move();
  void end_move();
  region::PageRange unit_of(const Memory& memory, const region::PageRange& pages) const;
  void move(Memory& memory, const region::PageRange& pages);
  void adopt(Memory& memory, const region::PageRange& pages);
  void publish(Memory& memory);

  region::MemoryFile& memory_;
  Arena& arena_;
  region::RegionTable& regions_;
  const std::function<bool(TimeNs)> await_copies_;
  std::atomic<TimeNs> not_before_{0};  // After a peer that did not end its copy.
  TimeNs pause_;                       // Before the next try. Used by who moves alone.
  std::mutex lock_;                    // Guards what follows.
  std::map<std::uint64_t, std::shared_ptr<Memory>> all_;  // By page map.
};

}  // namespace verbatim::adapter
