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

/// Objects of another program of the node (`ibv_import_pd`, `ibv_import_mr`, `ibv_import_dm`): this
/// program takes a proxy target in the other's arena, as an XRC target does, under whose lock that
/// one's regions are visited. What the other ends, or its own end, ends what was imported.
namespace verbatim::adapter {

/// Both sides: what this program has imported, and what it tells those who import from it. Any
/// thread.
class Imports {
 public:
  /// `own_address`: where the node's agent finds programs of this node.
  Imports(PeerDirectory& peers, Regions& regions, Qpn first_qpn, const SocketAddress& own_address)
      : peers_(peers), regions_(regions), first_qpn_(first_qpn), own_address_(own_address) {}

  /// `ibv_import_pd` of another program, whose numbers begin with `first_qpn`: a domain of this one
  /// in which that one's regions can be imported. ENOENT, ESRCH, EAGAIN.
  Result<PdNumber> import_pd(Qpn first_qpn, PdNumber there);
  /// `ibv_import_mr` into such a domain: the region has its key here, too. Answers with what it is.
  /// ENOENT, EEXIST where something of this program has the key, ENOMEM.
  Result<region::Region> import_memory(PdNumber pd, MemoryKey key);
  void unimport_memory(MemoryKey key);
  /// `ibv_import_dm`: addresses in `ImportedMemory`. ENOENT, ESRCH, EAGAIN, ENOMEM.
  Result<MutableByteSpan> import_device_memory(Qpn first_qpn, std::uint32_t handle);

  DeviceMemory& device_memory() { return device_memory_; }
  /// `ibv_free_dm`: EBUSY while regions of this program lie over it. Who has imported it has it no
  /// more.
  Result<void> free_device_memory(std::uint32_t handle);
  /// By the exporter's background thread, in no turn: regions over its device memory are made when
  /// somebody imports it.
  void answer_importer(OwnerRequest& wanted);

 private:
  Result<std::shared_ptr<MappedTarget>> exporter_of(Qpn first_qpn);
  static Result<region::Region> reserve(ImportedRegion imported);

  static constexpr PdNumber kDeviceMemoryPd{};  // Of regions that show device memory; no program's.

  PeerDirectory& peers_;
  Regions& regions_;
  const Qpn first_qpn_;
  const SocketAddress own_address_;
  DeviceMemory device_memory_;
  /// Guards the next one. Held while exporters are asked, who may be asking, too.
  std::mutex exporters_lock_;
  std::map<std::uint32_t, std::shared_ptr<MappedTarget>> exporters_;  // By first number.
  /// Guards what follows. Nobody else is asked with it held.
  std::mutex lock_;
  std::map<MemoryKey, std::uint32_t> imports_;              // Regions of others: how often.
  std::map<std::uint32_t, MemoryKey> shown_device_memory_;  // By handle.
};

}  // namespace verbatim::adapter
