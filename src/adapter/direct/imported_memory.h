#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>

#include "adapter/direct/mapped_target.h"
#include "arena/target.h"
#include "base/error.h"
#include "base/types.h"

/// Access to memory regions imported from another process (`ibv_import_mr`, `ibv_import_dm`).
namespace verbatim::adapter {

/// An imported region; `target` is this process's proxy target at the exporter.
struct ImportedRegion {
  std::shared_ptr<MappedTarget> target;
  int process_id = 0;     // The importer's: its forked child cannot access the peer.
  Qpn proxy;              // The queue pair number of the proxy target.
  MemoryKey key{};        // The region's key in its owner's table,
  PdNumber pd{};          // its protection domain there,
  region::Region region;  // and a copy of it from the time of the import.
};

/// The imported regions of this process. Each has a reserved address range without memory; local
/// regions over it are marked `kImported`, and every access to them goes through this class.
/// Thread-safe.
///
/// Each access looks the region up again in the owner's table, under the lock of a proxy target in
/// the owner's arena. So no access succeeds after the owner's ibv_dereg_mr has returned.
class ImportedMemory {
 public:
  static ImportedMemory& of_process();

  /// Returns the address of the first byte. ENOMEM if no free address range is large enough.
  Result<std::uint64_t> add(ImportedRegion imported);
  /// Requires that no access to it is left.
  void remove(std::uint64_t first);

  /// Copies between `here` and imported memory at `address`. Returns false if the owner has ended
  /// or has deregistered the region.
  bool copy(std::uint64_t address, std::byte* here, std::uint64_t length, bool to_owner);
  /// Executes `wanted` on 8 aligned bytes of region `key` at a peer. Returns the old value; nothing
  /// if refused. Requires the target's lock.
  using Execute = std::optional<std::uint64_t> (*)(MappedTarget& there,
                                                   const region::Region& region, MemoryKey key,
                                                   std::uint64_t iova, const OwnerRequest& wanted);
  /// Executes the atomic operation `wanted` on 8 bytes; returns the old value, or nothing if
  /// refused. If peers cannot map the memory, asks the owner and waits one second at most.
  std::optional<std::uint64_t> execute(std::uint64_t address, const OwnerRequest& wanted,
                                       Execute at_owner);

 private:
  std::shared_ptr<const ImportedRegion> find(std::uint64_t address, std::uint64_t& iova);

  std::shared_mutex lock_;  // Protects the members below.
  std::map<std::uint64_t, std::shared_ptr<const ImportedRegion>> regions_;
};

}  // namespace verbatim::adapter
