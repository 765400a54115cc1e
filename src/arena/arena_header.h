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

/// How an arena is laid out: its header, and where what it holds lies.
namespace verbatim::arena {

inline constexpr std::uint32_t kProgramQueuePairsMax = 1 << 14;
inline constexpr std::uint32_t kProxyTargetsMax = 1 << 10;  // XRC targets of other programs.
/// By local number: the program's own, then its guests.
inline constexpr std::uint32_t kTargetsMax = kProgramQueuePairsMax + kProxyTargetsMax;
inline constexpr std::uint32_t kRegionsMax = 1 << 20;
inline constexpr std::uint32_t kAttachedPeersMax = 1 << 10;  // Programs that watch out for one.
inline constexpr std::uint64_t kArenaBytes = std::uint64_t{64} << 30;  // Of address space.

struct DirectTarget;
struct XrcQueue;

/// A bit for each local number.
using LocalNumberBitmap = std::array<std::atomic<std::uint64_t>, kTargetsMax / 64>;

struct ArenaHeader {
  static constexpr std::uint64_t kMagic = 0x76657262'61726e61;  // "verbarna"
  static constexpr std::uint32_t kVersion = 8;
  std::uint64_t magic = kMagic;
  std::uint32_t version = kVersion;
  ProcessToken process_token = 0;
  std::uint64_t pid_namespace = 0;  // Its inode.
  std::uint64_t base_address = 0;   // Where the owner has this header.
  Liveness liveness;                // Of the background thread: of the program.
  observe::PortCounters port_counters;
  observe::FaultCounters fault_counters;
  region::RegionTableHeader region_header;
  Offset<QueuePairRecord> queue_pairs;  // kProgramQueuePairsMax of them, by local number.
  Offset<region::RegionEntry> regions;  // kRegionsMax of them.
  Offset<DirectTarget> targets;         // kTargetsMax of them, by local number.
  Offset<XrcQueue> xrc_queues;          // kProgramQueuePairsMax of them, by local number.
  Offset<ConnectionRecord> connections;
  std::atomic<std::uint32_t> connection_count{0};  // Records that may be in use, the first ones.
  std::atomic<std::uint32_t> proxy_count{0};       // Guests that may be in use, the first ones.
  LocalNumberBitmap notified_targets{};            // Targets that have news.
  LocalNumberBitmap notified_srqs{};               // XRC queues that have.
  /// Who has mapped this arena, for its owner to hear of their ends: they may end in the middle of
  /// something. 0: free; where all are taken, one more says nothing.
  std::array<std::atomic<ProcessToken>, kAttachedPeersMax> attached_peers{};
  std::atomic<bool> has_new_attached_peers{
      false};  // Set after the visitor's place, before the doorbell.
};

}  // namespace verbatim::arena
