#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "offload/driver/device.h"

namespace verbatim::offload::driver {

/// Buffers that lie in one ring of the card. One thread at a time uses a queue.
struct Queue {
  Port* port = nullptr;
  std::shared_ptr<Connection> card;  // Whose ring it is, until the queue is made anew.
  vnic_ring* ring = nullptr;
  rte_mempool* pool = nullptr;  // To receive.
  std::uint16_t depth = 0;      // Of empty buffers that are posted.
  std::uint32_t tail = 0;       // The oldest buffer that is in the ring.
  std::uint64_t packets = 0;
  std::uint64_t bytes = 0;
  std::array<rte_mbuf*, VNIC_SLOTS> buffers{};
};

std::uint16_t receive_burst(void* queue, rte_mbuf** packets, std::uint16_t count);
std::uint16_t send_burst(void* queue, rte_mbuf** packets, std::uint16_t count);
/// Takes all buffers back. Requires that the port is stopped: the card touches none of them.
void drain(Queue& queue);

}  // namespace verbatim::offload::driver
