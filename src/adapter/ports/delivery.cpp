#include "adapter/ports/delivery.h"

#include <algorithm>
#include <mutex>

#include "adapter/ports/multicast.h"
#include "adapter/queue_pair/queue_pair.h"

namespace verbatim::adapter {
namespace {

/// Over InfiniBand the packet's LID counts, too: groups may share one, and a group's may change.
MulticastGroup group_of(const Gid& gid, const Path& to) {
  const auto* const infiniband = std::get_if<InfinibandPath>(&to);
  if (infiniband == nullptr) return {.gid = gid};
  return {.gid = gid, .lid = infiniband->dlid, .port = infiniband->port};
}

}  // namespace

/// Packets that arrive together are usually for one queue pair, whose lock is taken once.
class Delivery::Reception {
 public:
  Reception(Progress& progress, const Path& from, const Path& to, TimeNs now)
      : progress_(progress), from_(from), to_(to), now_(now) {}
  ~Reception() { end(); }
  Reception(const Reception&) = delete;
  Reception& operator=(const Reception&) = delete;

  void deliver(QueuePair& queue_pair, const wire::Packet& packet) {
    if (queue_pair_ != &queue_pair) {
      end();
      guard_ = std::unique_lock(queue_pair.lock_);
      queue_pair_ = &queue_pair;
    }
    queue_pair.on_packet(packet, from_, to_, now_);
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
  const Path& from_;
  const Path& to_;
  const TimeNs now_;
  QueuePair* queue_pair_ = nullptr;
  std::unique_lock<Mutex> guard_;  // The queue pair's lock.
};

void Delivery::on_packets(std::span<const wire::Packet> packets, const Path& from, const Path& to,
                          const Gid& group, TimeNs now) {
  Reception reception(progress_, from, to, now);
  for (const wire::Packet& packet : packets) {
    const Qpn number = packet.headers.bth.dest_qp;
    if (number == kMulticastQpn) {
      for (QueuePair* member : groups_.members(group_of(group, to)))
        reception.deliver(*member, packet);
    } else if (QueuePair* const queue_pair = numbers_.find(number)) {
      reception.deliver(*queue_pair, packet);
    } else {
      counters_.dropped_no_qp.add();
    }
  }
}

void Delivery::await_room(Task& task) {
  const std::lock_guard guard(lock_);
  if (std::ranges::find(awaiting_, &task) == awaiting_.end()) awaiting_.push_back(&task);
}

void Delivery::forget(Task& task) {
  const std::lock_guard guard(lock_);
  std::erase(awaiting_, &task);
}

void Delivery::on_room() {
  const std::lock_guard guard(lock_);
  for (Task* const task : awaiting_) progress_.note_output(*task);
  awaiting_.clear();
}

}  // namespace verbatim::adapter
