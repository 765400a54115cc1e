#pragma once

#include <bit>
#include <cstdint>

#include "adapter/queues/receive_queue.h"
#include "arena/arena.h"

namespace verbatim::adapter {

/// True limits, as `ibv_query_device` tells them.
struct Limits {
  static constexpr std::uint32_t queue_pairs = kProgramQueuePairsMax - 1;
  static constexpr std::uint32_t completion_queues = 1 << 16;
  static constexpr std::uint32_t completions = 1 << 22;  // Entries of one completion queue.
  static constexpr std::uint32_t work_queues = 1 << 16;
  static constexpr std::uint32_t indirection_tables = 1 << 16;
  static constexpr std::uint32_t regions = kRegionsMax - 1;
  static constexpr std::uint32_t protection_domains = 1 << 16;
  static constexpr std::uint32_t shared_receive_queues = kProgramQueuePairsMax - 1;
  static constexpr std::uint32_t xrc_domains = 1 << 16;
  static constexpr std::uint32_t requests = 1 << 15;  // Of one send or receive queue.
  static constexpr std::uint32_t segments = kSegmentsMax;
  static constexpr std::uint32_t inline_bytes = 1024;
  static constexpr std::uint32_t rate_kbps = 100'000'000;  // What the port says that it is.
  static constexpr std::uint32_t rd_atomic = 128;  // Outstanding READs and atomics, either side.
  static constexpr std::uint64_t message_bytes = 1u << 30;
  static constexpr std::uint64_t region_bytes = std::uint64_t{1} << 46;
  static constexpr std::uint32_t address_handles = 1 << 20;
  static constexpr std::uint32_t multicast_groups = 1 << 12;
  static constexpr std::uint32_t multicast_attachments = 1 << 10;  // Queue pairs of one group.
};

/// Room for more receive requests than were asked for, by some cache lines at least: who posts one
/// for each that was taken then neither writes beside where the peer takes, nor asks each time how
/// far it has come.
constexpr std::uint32_t granted_receives(std::uint32_t wanted) {
  constexpr std::uint32_t kApart = 8;
  const std::uint32_t granted = std::bit_ceil(wanted + kApart);
  return granted < Limits::requests ? granted : Limits::requests;
}

}  // namespace verbatim::adapter
