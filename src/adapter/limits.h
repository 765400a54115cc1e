#pragma once

#include <algorithm>
#include <cstdint>

#include "adapter/queues/receive_queue.h"
#include "arena/arena.h"

namespace verbatim::adapter {

/// The adapter's limits, as `ibv_query_device` reports them.
struct Limits {
  static constexpr std::uint32_t queue_pairs = kProgramQueuePairsMax - 1;
  static constexpr std::uint32_t completion_queues = 1 << 16;
  static constexpr std::uint32_t completions = 1 << 22;  // Entries in a completion queue.
  static constexpr std::uint32_t work_queues = 1 << 16;
  static constexpr std::uint32_t indirection_tables = 1 << 16;
  static constexpr std::uint32_t regions = kRegionsMax - 1;
  static constexpr std::uint32_t protection_domains = 1 << 16;
  static constexpr std::uint32_t shared_receive_queues = kProgramQueuePairsMax - 1;
  static constexpr std::uint32_t xrc_domains = 1 << 16;
  static constexpr std::uint32_t requests = 1 << 15;  // In a send or receive queue.
  static constexpr std::uint32_t segments = kSegmentsMax;
  static constexpr std::uint32_t inline_bytes = 1024;
  static constexpr std::uint32_t rate_kbps = 100'000'000;  // The port's speed.
  // Outstanding READs and atomics, in each direction.
  static constexpr std::uint32_t rd_atomic = 128;
  static constexpr std::uint64_t message_bytes = 1u << 30;
  static constexpr std::uint64_t region_bytes = std::uint64_t{1} << 46;
  static constexpr std::uint32_t address_handles = 1 << 20;
  static constexpr std::uint32_t multicast_groups = 1 << 12;
  static constexpr std::uint32_t multicast_attachments = 1 << 10;  // Queue pairs in a group.
};

/// Returns the capacity of a receive queue of `wanted` requests: up to 8 more, unless that is above
/// `most`. So a program that posts one receive for each that completes does not read the peer's
/// counter at each post.
constexpr std::uint32_t granted_receives(std::uint32_t wanted, std::uint32_t most) {
  constexpr std::uint32_t kApart = 8;
  return std::max(wanted, std::min(wanted + std::min(wanted / 4, kApart), most));
}

/// Returns the capacity of a completion queue of `wanted` entries, which is rounded up later: as
/// many more as any receive queues have whose sizes add up to it. So a program may fill all queues
/// as far as they were granted.
constexpr std::uint32_t granted_completions(std::uint32_t wanted, std::uint32_t most) {
  return std::max(wanted, std::min(wanted + wanted / 4, most));
}

}  // namespace verbatim::adapter
