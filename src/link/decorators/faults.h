#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "base/os/timer_fd.h"
#include "base/time.h"
#include "link/decorators/decorator.h"
#include "link/decorators/fault_plan.h"
#include "link/decorators/faulty_packets.h"
#include "link/decorators/packet_history.h"
#include "link/decorators/remark.h"
#include "observe/fault_counters.h"

namespace verbatim::link {

/// Sees each packet that is sent and that a fault hit: a capture.
class FaultWitness {
 public:
  /// Sends `packet` (a single one), which a fault has hit.
  virtual int send_marked(const Packets& packet, Remark remark) noexcept = 0;
  /// `packet` (one) is not sent.
  virtual void note_lost(const Packets& packet, Remark remark) noexcept = 0;

 protected:
  ~FaultWitness() = default;
};

/// Loses, delays, duplicates, reorders and corrupts packets by a plan. Delayed packets are copied;
/// beyond a maximum number they count as lost. Thread-safe.
class Faults final : public Decorator {
 public:
  static constexpr std::size_t kDelayedMax = 8192;
  static constexpr std::size_t kDelayedBytesMax = 32 << 20;
  /// A reordered packet is sent after this time if no other packet uses the same route.
  static constexpr TimeNs kReorderTime = kMillisecond;
  using Clock = TimeNs (*)();

  /// Requires that all outlive the decorator. `witness` may be null.
  Faults(Link& next, observe::FaultCounters& counters, FaultWitness* witness, TimerFd timer,
         Clock clock = monotonic_now);

  /// Applies from the next packet on. Flows and attempts are counted from the start.
  void set_plan(const FaultPlan& plan);

  int send(const Packets& packets) noexcept override;
  std::size_t receive(Sink& sink, TimeNs now) override;

  /// Becomes readable when `send_due` has packets to send.
  int timer() const { return timer_.fd(); }
  /// Sends the delayed packets that are due.
  void send_due();

 private:
  class Burst;
  class FaultySink;
  /// A delayed packet.
  struct Waiting {
    NextHop* to;
    Path path;
    wire::IcrcSeed seed;
    std::uint8_t lane;
    Remark remark;
    bool is_reordered;  // Sent after the next packet with the same route.
    std::vector<std::byte> bytes;
  };

  /// Decides for all packets, which `packet_at(i)` returns from their BTH on; returns an empty
  /// result if no fault hits.
  template <typename PacketAt>
  std::vector<FaultDecision> decide(Direction direction, const Path& peer, std::size_t count,
                                    PacketAt packet_at);
  int send_some(const Packets& packets);
  int send_single(Burst& burst, std::size_t index, const FaultDecision& decision);
  int damage_on_cable(Burst& burst, std::size_t index, std::uint64_t random) noexcept;
  int send_one(const Packets& like, ByteSpan packet, Remark remark) noexcept;
  void wait(const Packets& like, ByteSpan packet, Remark remark, TimeNs delay, bool is_reordered);
  void send_reordered(const NextHop& way);
  void send_all(const std::vector<Waiting>& packets) noexcept;
  template <typename Chooses>
  std::vector<Waiting> take_waiting(Chooses chooses);

  observe::FaultCounters& counters_;
  FaultWitness* const witness_;
  const bool is_infiniband_;
  const Clock clock_;
  // Number in waiting_. A hint, which saves taking the lock.
  std::atomic<std::uint32_t> reordered_{0};
  std::mutex lock_;  // Protects the members below; no packet is sent under it.
  TimerFd timer_;
  FaultPlan plan_;
  PacketHistory history_;
  std::multimap<TimeNs, Waiting> waiting_;  // By the time at which they are sent.
  std::size_t waiting_bytes_ = 0;
};

template <typename PacketAt>
std::vector<FaultDecision> Faults::decide(Direction direction, const Path& peer, std::size_t count,
                                          PacketAt packet_at) {
  std::vector<FaultDecision> decisions;
  const SocketAddress address = identity_of(peer);
  const std::lock_guard guard(lock_);
  for (std::size_t i = 0; i < count; ++i) {
    wire::Bth bth;
    if (wire::decode_bth(packet_at(i), bth)) continue;
    if (!plan_.chooses(direction, address, bth.opcode)) continue;
    const auto decision = plan_.decide(history_.note(direction, address, bth));
    if (decision.is_none()) continue;
    decisions.resize(count);
    decisions[i] = decision;
  }
  return decisions;
}

/// Inverts a bit of `packet` (from its BTH to its ICRC), chosen by `random`, such that the
/// receiver's check of the ICRC fails.
void corrupt(const wire::IcrcSeed& seed, MutableByteSpan packet, std::uint64_t random);

}  // namespace verbatim::link
