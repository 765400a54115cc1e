#pragma once

#include <cstdint>

#include "adapter/queue_pair/core/queue_pair_state.h"
#include "adapter/queue_pair/core/send_work.h"
#include "base/types.h"
#include "transport/ib/path_migration.h"

namespace verbatim::adapter {

struct QueuePairCapacity {
  std::uint32_t send_requests = 0;
  std::uint32_t receive_requests = 0;
  std::uint32_t send_segments = 0;
  std::uint32_t receive_segments = 0;
  std::uint32_t inline_bytes = 0;
};

/// The path that a connected queue pair can migrate to (IBA 17.2.8).
struct AlternatePath {
  port::AddressVector address;
  std::uint16_t pkey_index = 0;
  std::uint8_t port = 0;  // 0: none is loaded.
  std::uint8_t timeout = 0;
};

/// The attributes of modify and query: `struct ibv_qp_attr` in our types.
struct QueuePairAttributes {
  QpState state = QpState::reset;
  QpState current_state = QpState::reset;
  Mtu path_mtu = Mtu::k1024;
  QKey qkey{};
  Psn receive_psn;
  Psn send_psn;
  Qpn dest_qpn;
  std::uint32_t access = 0;
  QueuePairCapacity capacity;
  port::AddressVector address;
  std::uint16_t pkey_index = 0;
  bool sqd_notify = false;
  bool is_draining = false;  // SQD: requests that were begun have not completed. Query alone.
  std::uint8_t max_rd_atomic = 0;
  std::uint8_t max_dest_rd_atomic = 0;
  std::uint8_t min_rnr_timer = 0;
  std::uint8_t port = 1;
  std::uint8_t timeout = 0;
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry = 0;
  AlternatePath alternate;
  transport::PathMigrationState path_migration{};
  std::uint32_t rate_limit_kbps = 0;  // 0: none.
};

}  // namespace verbatim::adapter
