#pragma once

#include <atomic>
#include <cstdint>

#include "base/types.h"
#include "observe/counters.h"

namespace verbatim::arena {

/// With the values of `enum ibv_qp_state`.
enum class QpState : std::uint8_t { reset, init, rtr, rts, sqd, sqe, err };
/// With the values of `enum ibv_qp_type`.
enum class QpType : std::uint8_t {
  rc = 2,
  uc = 3,
  ud = 4,
  raw_packet = 8,
  xrc_send = 9,
  xrc_receive = 10
};

const char* name_of(QpState state);
const char* name_of(QpType type);

/// State of one queue pair for readers in other processes. Written by its owner; a reader may see
/// values of different moments. Two queue pairs share no cache line.
struct alignas(64) QueuePairRecord {
  std::atomic<std::uint32_t> qpn{0};  // 0: no queue pair here. Published last.
  std::atomic<std::uint32_t> dest_qpn{0};
  std::atomic<std::uint8_t> type{0};   // As `enum ibv_qp_type`.
  std::atomic<std::uint8_t> state{0};  // As `enum ibv_qp_state`.
  Gid dest_gid;  // InfiniBand without GRH: zero; iWARP: made from the connection's address.
  std::atomic<std::uint16_t> dest_lid{0};  // InfiniBand.
  observe::QueuePairCounters counters;
  observe::DirectCounters direct_sent;  // What peers have sent is in their DirectTarget.
};

}  // namespace verbatim::arena
