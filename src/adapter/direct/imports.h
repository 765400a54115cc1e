#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "adapter/direct/imported_memory.h"
#include "adapter/direct/mapped_target.h"
#include "adapter/direct/peers.h"
#include "adapter/memory/device_memory.h"
#include "adapter/memory/regions.h"
#include "arena/target.h"
#include "base/bytes.h"
#include "base/error.h"
#include "base/net/address.h"
#include "base/types.h"

/// Objects of another process of the node (`ibv_import_pd`, `ibv_import_mr`, `ibv_import_dm`). The
/// importer allocates a proxy target in the exporter's arena and accesses the exporter's regions
/// under its lock. An import ends when the exporter deregisters the object or ends.
namespace verbatim::adapter {

/// Both sides: what this process has imported, and answers to its importers. Any thread.
class Imports {
 public:
  /// `own_address`: the address under which the node's agent finds its programs.
  Imports(PeerDirectory& peers, Regions& regions, Qpn first_qpn, const SocketAddress& own_address)
      : peers_(peers), regions_(regions), first_qpn_(first_qpn), own_address_(own_address) {}

  /// `ibv_import_pd` from the process whose numbers begin with `first_qpn`: returns a domain of
  /// this process into which regions of the other can be imported. ENOENT, ESRCH, EAGAIN.
  Result<PdNumber> import_pd(Qpn first_qpn, PdNumber there);
  /// `ibv_import_mr` into such a domain: the region's key is valid here, too. Returns the region.
  /// ENOENT; EEXIST if an object of this process has the key; ENOMEM.
  Result<region::Region> import_memory(PdNumber pd, MemoryKey key);
  void unimport_memory(MemoryKey key);
  /// `ibv_import_dm`: returns addresses in `ImportedMemory`. ENOENT, ESRCH, EAGAIN, ENOMEM.
  Result<MutableByteSpan> import_device_memory(Qpn first_qpn, std::uint32_t handle);

  DeviceMemory& device_memory() { return device_memory_; }
  /// `ibv_free_dm`: EBUSY while regions of this process are over it. Importers lose access.
  Result<void> free_device_memory(std::uint32_t handle);
  /// Called by the exporter's background thread, outside of passes: regions over its device memory
  /// are created at their import.
  void answer_importer(OwnerRequest& wanted);

 private:
  Result<std::shared_ptr<MappedTarget>> exporter_of(Qpn first_qpn);
  static Result<region::Region> reserve(ImportedRegion imported);

  static constexpr PdNumber
      kDeviceMemoryPd{};  // For regions over device memory; no program has this domain.

  PeerDirectory& peers_;
  Regions& regions_;
  const Qpn first_qpn_;
  const SocketAddress own_address_;
  DeviceMemory device_memory_;
  /// Protects the next member. Held while an exporter is asked, which may be asking at the same
  /// time.
  std::mutex exporters_lock_;
  std::map<std::uint32_t, std::shared_ptr<MappedTarget>> exporters_;  // By first queue pair number.
  /// Protects the members below. No other process is asked with it.
  std::mutex lock_;
  std::map<MemoryKey, std::uint32_t> imports_;  // Imported regions, with their number of imports.
  std::map<std::uint32_t, MemoryKey> shown_device_memory_;  // By handle.
};

}  // namespace verbatim::adapter
