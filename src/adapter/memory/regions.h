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
#include "region/region_table.h"

namespace verbatim::adapter {

using namespace arena;

class Adoption;
class MappedTarget;

/// The origin of an imported protection domain.
struct ForeignDomain {
  std::shared_ptr<MappedTarget> exporter;  // Null: it is this process's own.
  PdNumber number{};
};

/// Protection domains, memory regions and windows of this process: the control path of the region
/// table. Any thread.
class Regions {
 public:
  explicit Regions(Arena& arena);
  ~Regions();
  region::RegionTable& table() { return table_; }
  /// Memory of regions moves for peers; without this call it does not.
  void adopt_by(std::unique_ptr<Adoption> adoption);
  Adoption* adoption() { return adoption_.get(); }

  Result<PdNumber> allocate_pd();
  /// EBUSY while regions, windows or queue pairs use it.
  Result<void> deallocate_pd(PdNumber pd);
  bool has_pd(PdNumber pd);
  /// Counts a user of the domain, or removes one. EINVAL if there is no such domain.
  Result<void> enter_pd(PdNumber pd);
  void leave_pd(PdNumber pd);

  /// Returns a domain of this process for regions of the exporter: a new one, or the existing one,
  /// whose count of imports it increments.
  PdNumber import_pd(const ForeignDomain& domain);
  void unimport_pd(PdNumber pd);
  bool is_imported(PdNumber pd);
  /// EINVAL if there is no such domain.
  Result<ForeignDomain> origin_of(PdNumber pd);

  /// `ibv_reg_mr`: EINVAL for contradictory rights (remote write or atomic without local write),
  /// EFAULT for memory that is not mapped, ENOMEM if the table is full. On-demand memory is not
  /// checked until it is accessed.
  Result<MemoryKey> register_memory(const region::Region& region);
  /// EBUSY while windows are bound to it.
  Result<void> deregister_memory(MemoryKey key);
  /// `ibv_rereg_mr`: replaces the region with this key. Errors as for both of the above; then
  /// nothing has changed.
  Result<void> change_memory(MemoryKey key, const region::Region& region);
  /// Adds memory of another process, without checks and without sharing.
  Result<MemoryKey> enter_imported(const region::Region& region) { return enter(region); }
  /// `ibv_alloc_mw`.
  Result<MemoryKey> allocate_window(region::EntryKind type, PdNumber pd);
  Result<void> deallocate_window(MemoryKey window, PdNumber pd);
  /// `ibv_advise_mr`: brings in the pages of on-demand memory. Errors as in the manual page; those
  /// of the pages themselves are only reported to callers that wait.
  enum class Prefetch : std::uint8_t { read, write, no_fault };
  Result<void> prefetch(PdNumber pd, Prefetch advice, bool waits, std::span<const Segment> list);

 private:
  struct Pd {
    std::uint32_t users = 0;
    ForeignDomain origin;
    std::uint32_t imports = 0;  // Number of imports.
  };
  PdNumber add_pd(Pd pd);
  Result<MemoryKey> enter(const region::Region& region);
  Result<void> exchange(MemoryKey key, const region::Region& region);

  region::RegionTable table_;
  std::unique_ptr<Adoption> adoption_;
  std::mutex lock_;  // Protects the members below. A leaf: no other lock is taken with it.
  std::map<PdNumber, Pd> pds_;
  std::uint32_t last_pd_ = 0;
  std::map<MemoryKey, PdNumber> registered_;  // With its domain.
};

}  // namespace verbatim::adapter
