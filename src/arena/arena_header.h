#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "arena/connection_record.h"
#include "arena/offset.h"
#include "arena/queue_pair_record.h"
#include "base/os/liveness.h"
#include "base/os/process_token.h"
#include "observe/counters.h"
#include "observe/fault_counters.h"
#include "region/region_table.h"

/// Layout of an arena: its header, and the offsets of its tables.
namespace verbatim::arena {

inline constexpr std::uint32_t kProgramQueuePairsMax = 1 << 14;
// For XRC targets and importers of other processes.
inline constexpr std::uint32_t kProxyTargetsMax = 1 << 10;
/// By local number: first the program's own targets, then proxy targets.
inline constexpr std::uint32_t kTargetsMax = kProgramQueuePairsMax + kProxyTargetsMax;
inline constexpr std::uint32_t kRegionsMax = 1 << 20;
// Processes that may have one arena mapped and be watched.
inline constexpr std::uint32_t kAttachedPeersMax = 1 << 10;
inline constexpr std::uint64_t kArenaBytes = std::uint64_t{64} << 30;  // Of address space.

struct DirectTarget;
struct XrcQueue;

/// One bit for each local number.
using LocalNumberBitmap = std::array<std::atomic<std::uint64_t>, kTargetsMax / 64>;

struct ArenaHeader {
  static constexpr std::uint64_t kMagic = 0x76657262'61726e61;  // "verbarna"
  static constexpr std::uint32_t kVersion = 11;
  std::uint64_t magic = kMagic;
  std::uint32_t version = kVersion;
  ProcessToken process_token = 0;
  std::uint64_t pid_namespace = 0;  // The namespace's inode.
  std::uint64_t base_address = 0;   // The header's address in the owner.
  Liveness liveness;  // Held by the background thread: shows peers whether the process has ended.
  observe::PortCounters port_counters;
  observe::FaultCounters fault_counters;
  region::RegionTableHeader region_header;
  Offset<QueuePairRecord> queue_pairs;  // kProgramQueuePairsMax records, by local number.
  Offset<region::RegionEntry> regions;  // kRegionsMax entries.
  Offset<DirectTarget> targets;         // kTargetsMax targets, by local number.
  Offset<XrcQueue> xrc_queues;          // kProgramQueuePairsMax queues, by local number.
  Offset<ConnectionRecord> connections;
  // Only this many records, from the first, may be in use.
  std::atomic<std::uint32_t> connection_count{0};
  // Only this many proxy targets, from the first, may be in use.
  std::atomic<std::uint32_t> proxy_count{0};
  LocalNumberBitmap notified_targets{};  // Bitmap of targets with pending notifications.
  LocalNumberBitmap notified_srqs{};     // The same for XRC receive queues.
  /// Processes that have mapped this arena. The owner watches each with a pidfd, since it may be
  /// killed while it holds a lock here. 0: free entry. If the table is full, a further process is
  /// not watched.
  std::array<std::atomic<ProcessToken>, kAttachedPeersMax> attached_peers{};
  // Set after the entry in attached_peers, before the doorbell.
  std::atomic<bool> has_new_attached_peers{false};
  /// The owner moves pages of its memory: peers do not let the kernel copy to or from it. A peer
  /// locks a target and then reads this; the owner sets it and then waits until each target's lock
  /// has been free once. All four accesses are sequentially consistent: at least one sees the
  /// other.
  std::atomic<bool> moves_memory{false};
};

}  // namespace verbatim::arena
