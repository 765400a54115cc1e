#include "offload/driver/queues.h"

#include <rte_mbuf.h>

namespace verbatim::offload::driver {
namespace {

/// Posts empty buffers up to the queue's depth.
void refill(Queue& queue) {
  vnic_ring& ring = *queue.ring;
  const std::uint32_t before = relaxed(ring.posted);
  std::uint32_t posted = before;
  while (posted - queue.tail < queue.depth) {
    rte_mbuf* const buffer = rte_pktmbuf_alloc(queue.pool);
    if (buffer == nullptr) break;
    queue.buffers[posted % VNIC_SLOTS] = buffer;
    ring.slots[posted % VNIC_SLOTS] = {rte_pktmbuf_mtod(buffer, std::uint64_t),
                                       rte_pktmbuf_tailroom(buffer), 0};
    ++posted;
  }
  if (posted != before) release(ring.posted, posted);
}

/// Frees the buffers that the card has sent.
void reclaim(Queue& queue) {
  const std::uint32_t done = acquire(queue.ring->done);
  for (; queue.tail != done; ++queue.tail) rte_pktmbuf_free(queue.buffers[queue.tail % VNIC_SLOTS]);
}

}  // namespace

std::uint16_t receive_burst(void* of, rte_mbuf** packets, std::uint16_t count) {
  Queue& queue = *static_cast<Queue*>(of);
  const std::uint32_t done = acquire(queue.ring->done);
  std::uint16_t got = 0;
  for (; got < count && queue.tail != done; ++queue.tail) {
    rte_mbuf* const buffer = queue.buffers[queue.tail % VNIC_SLOTS];
    const vnic_descriptor& slot = queue.ring->slots[queue.tail % VNIC_SLOTS];
    if (slot.length == 0) {  // The card could not use it.
      rte_pktmbuf_free(buffer);
      continue;
    }
    buffer->data_len = static_cast<std::uint16_t>(slot.length);
    buffer->pkt_len = slot.length;
    buffer->port = queue.port->id;
    if (slot.mark != 0) {
      buffer->hash.fdir.hi = slot.mark;
      buffer->ol_flags |= RTE_MBUF_F_RX_FDIR | RTE_MBUF_F_RX_FDIR_ID;
    }
    queue.bytes += slot.length;
    packets[got++] = buffer;
  }
  queue.packets += got;
  refill(queue);
  return got;
}

std::uint16_t send_burst(void* of, rte_mbuf** packets, std::uint16_t count) {
  Queue& queue = *static_cast<Queue*>(of);
  vnic_ring& ring = *queue.ring;
  reclaim(queue);
  std::uint32_t posted = relaxed(ring.posted);
  std::uint16_t sent = 0;
  for (; sent < count && posted - queue.tail < VNIC_SLOTS; ++sent) {
    rte_mbuf* const packet = packets[sent];
    if (packet->nb_segs > 1 && rte_pktmbuf_linearize(packet) != 0) {
      rte_pktmbuf_free(packet);  // No buffer is as long as it.
      continue;
    }
    queue.buffers[posted % VNIC_SLOTS] = packet;
    ring.slots[posted % VNIC_SLOTS] = {rte_pktmbuf_mtod(packet, std::uint64_t), packet->data_len,
                                       0};
    queue.bytes += packet->data_len;
    ++posted;
  }
  queue.packets += sent;
  if (sent != 0) {
    release(ring.posted, posted);
    queue.card->ring();
  }
  return sent;
}

void drain(Queue& queue) {
  const std::uint32_t posted = relaxed(queue.ring->posted);
  for (; queue.tail != posted; ++queue.tail) {
    rte_pktmbuf_free(queue.buffers[queue.tail % VNIC_SLOTS]);
  }
  queue.tail = acquire(queue.ring->done);
  release(queue.ring->posted, queue.tail);
}

}  // namespace verbatim::offload::driver
