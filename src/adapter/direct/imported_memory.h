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

/// Memory of another program, by a region that it has registered: what imported regions lie over
/// (`ibv_import_mr`, `ibv_import_dm`).
namespace verbatim::adapter {

/// A region of another program. `place` is a guest there (see xrc_queue_owners.h).
struct ImportedRegion {
  std::shared_ptr<MappedTarget> target;
  int process_id = 0;     // Of the borrower: not of a child of its, who has nothing of the peer.
  Qpn proxy;              // Whose the guest is.
  MemoryKey key{};        // The region, in its owner's table,
  PdNumber pd{};          // of which domain there,
  region::Region region;  // and what it was when it was borrowed.
};

/// All loans of this process, each at addresses at which there is nothing: regions over it name
/// those, and whoever touches one comes here. Thread-safe.
///
/// Each touch asks the owner's table anew, under the guest's lock: what the owner deregisters is
/// out of reach when that has returned, whoever had borrowed it.
class ImportedMemory {
 public:
  static ImportedMemory& of_process();

  /// The address of the first byte. ENOMEM where so many addresses are not free.
  Result<std::uint64_t> add(ImportedRegion imported);
  /// Nobody touches it any more, nor will.
  void remove(std::uint64_t first);

  /// Between memory here and borrowed memory. False: its owner has ended, or refuses.
  bool copy(std::uint64_t address, std::byte* here, std::uint64_t length, bool to_owner);
  /// Does to 8 aligned bytes, of the region `key` of a peer whose lock is held, what `wanted` says.
  /// The value before; nothing where the memory refuses.
  using Execute = std::optional<std::uint64_t> (*)(MappedTarget& there,
                                                   const region::Region& region, MemoryKey key,
                                                   std::uint64_t iova, const OwnerRequest& wanted);
  /// Calls it for 8 bytes of borrowed memory. Nothing: their owner has ended, or refuses.
  std::optional<std::uint64_t> execute(std::uint64_t address, const OwnerRequest& wanted,
                                       Execute at_owner);

 private:
  std::shared_ptr<const ImportedRegion> find(std::uint64_t address, std::uint64_t& iova);

  std::shared_mutex lock_;  // Guards what follows.
  std::map<std::uint64_t, std::shared_ptr<const ImportedRegion>> regions_;
};

}  // namespace verbatim::adapter
