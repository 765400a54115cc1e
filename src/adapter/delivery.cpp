#include "adapter/delivery.h"

#include <mutex>

#include "adapter/multicast.h"
#include "adapter/queue_pair/queue_pair.h"

namespace verbatim::adapter {

/// Packets that arrive together are usually for one queue pair, whose lock is taken once.
class Delivery::Reception {
 public:
  Reception(Progress& progress, const SocketAddress& source, const SocketAddress& destination,
            TimeNs now)
      : progress_(progress), source_(source), destination_(destination), now_(now) {}
  ~Reception() { end(); }
  Reception(const Reception&) = delete;
  Reception& operator=(const Reception&) = delete;

  void deliver(QueuePair& queue_pair, const wire::Packet& packet) {
    if (queue_pair_ != &queue_pair) {
      end();
      guard_ = std::unique_lock(queue_pair.lock_);
      queue_pair_ = &queue_pair;
    }
    queue_pair.on_packet(packet, source_, destination_, now_);
  }

 private:
  void end() {
    if (queue_pair_ == nullptr) return;
    const bool has_output = queue_pair_->end_reception();
    guard_.unlock();
    if (has_output) progress_.note_output(*queue_pair_);
    queue_pair_ = nullptr;
  }

  Progress& progress_;
  const SocketAddress& source_;
  const SocketAddress& destination_;
  const TimeNs now_;
  QueuePair* queue_pair_ = nullptr;
  std::unique_lock<Mutex> guard_;  // The queue pair's lock.
};

void Delivery::on_packets(std::span<const wire::Packet> packets, const SocketAddress& source,
                          const SocketAddress& destination, const Gid& group, TimeNs now) {
  Reception reception(progress_, source, destination, now);
  for (const wire::Packet& packet : packets) {
    const Qpn to = packet.headers.bth.dest_qp;
    if (to == kMulticastQpn) {
      for (QueuePair* member : groups_.members(group)) reception.deliver(*member, packet);
    } else if (QueuePair* const queue_pair = numbers_.find(to)) {
      reception.deliver(*queue_pair, packet);
    } else {
      counters_.dropped_no_qp.add();
    }
  }
}

}  // namespace verbatim::adapter
