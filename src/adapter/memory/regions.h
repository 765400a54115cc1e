#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "arena/arena.h"
#include "arena/receive_ring.h"
#include "base/error.h"
#include "base/types.h"
#include "region/adoption/memory_file.h"
#include "region/extent.h"
#include "region/region_table.h"

namespace verbatim::adapter {

using namespace arena;

class MappedTarget;

/// A protection domain of another program: which it is there.
struct ForeignDomain {
  std::shared_ptr<MappedTarget> exporter;  // None: it is this program's own.
  PdNumber number{};
};

/// Protection domains, memory regions and windows of this program: the control path around the
/// region table. Any thread.
class Regions {
 public:
  /// `memory`: where registered memory is shared with peers; null without the direct path.
  Regions(Arena& arena, region::MemoryFile* memory);
  region::RegionTable& table() { return table_; }

  Result<PdNumber> allocate_pd();
  /// EBUSY while regions, windows or queue pairs use it.
  Result<void> deallocate_pd(PdNumber pd);
  bool has_pd(PdNumber pd);
  /// Something more is in the domain, or less. EINVAL where there is none.
  Result<void> enter_pd(PdNumber pd);
  void leave_pd(PdNumber pd);

  /// A domain of this program in which regions of that one can be imported: a new one, or the one
  /// that it has already, which was imported once more then.
  PdNumber import_pd(const ForeignDomain& domain);
  void unimport_pd(PdNumber pd);
  bool is_imported(PdNumber pd);
  /// EINVAL where there is no such domain.
  Result<ForeignDomain> origin_of(PdNumber pd);

  /// `ibv_reg_mr`: EINVAL for rights that contradict each other (remote write or atomic without
  /// local write), EFAULT for memory that is not mapped, ENOMEM for a full table. On-demand memory
  /// may be anything: it is looked at when it is touched.
  Result<MemoryKey> register_memory(const region::Region& region);
  /// EBUSY while windows are bound to it.
  Result<void> deregister_memory(MemoryKey key);
  /// `ibv_rereg_mr`: the region with this key is `region` from now on. Errors as both of the above;
  /// then it is as it was.
  Result<void> change_memory(MemoryKey key, const region::Region& region);
  /// Memory that is another program's: nothing is checked, nothing shared.
  Result<MemoryKey> enter_imported(const region::Region& region) { return enter(region, {}); }
  /// `ibv_alloc_mw`.
  Result<MemoryKey> allocate_window(region::EntryKind type, PdNumber pd);
  Result<void> deallocate_window(MemoryKey window, PdNumber pd);
  /// `ibv_advise_mr`: brings the pages of on-demand memory in. With errors as the manual page has
  /// them, of which those of the pages themselves are told only to who waits.
  enum class Prefetch : std::uint8_t { read, write, no_fault };
  Result<void> prefetch(PdNumber pd, Prefetch advice, bool waits, std::span<const Segment> list);

 private:
  struct Pd {
    std::uint32_t users = 0;
    ForeignDomain origin;
    std::uint32_t imports = 0;  // How often it was imported.
  };
  /// What peers reach of a region; what it is made of is released by `release`.
  struct Adopted {
    std::vector<region::Extent> extents;
    Offset<std::byte> list;  // In the arena, where there is more than one.
  };
  struct Registered {
    PdNumber pd{};
    Adopted adopted;
  };
  PdNumber add_pd(Pd pd);
  Result<Adopted> adopt(region::Region& region);
  void release(const Adopted& adopted);
  Result<MemoryKey> enter(const region::Region& region, const Adopted& adopted);
  /// Leaves in `adopted` what the region had before.
  Result<void> exchange(MemoryKey key, const region::Region& region, Adopted& adopted);

  Arena& arena_;
  region::MemoryFile* const memory_;
  region::RegionTable table_;
  std::mutex lock_;  // Guards what follows. A leaf: nothing is asked of anybody with it held.
  std::map<PdNumber, Pd> pds_;
  std::uint32_t last_pd_ = 0;
  std::map<MemoryKey, Registered> registered_;
};

}  // namespace verbatim::adapter
