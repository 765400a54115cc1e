#include "link/decorators/faults.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "link/decorators/faulty_packets.h"
#include "wire/ib/bth.h"
#include "wire/net/ip.h"

namespace verbatim::link {
namespace {

/// Converts `packet`'s ICRC to another IP identification. The change of the CRC depends only on the
/// change of the identification, so an ICRC that was wrong stays wrong.
void move_icrc(const wire::IcrcSeed& seed, MutableByteSpan packet, std::size_t from,
               std::size_t to) {
  if (from == to || !seed.is_ipv4() || packet.size() < wire::Bth::kSize + wire::kIcrcBytes) return;
  const auto icrc = packet.last<wire::kIcrcBytes>();
  const ByteSpan covered = packet.first(packet.size() - wire::kIcrcBytes);
  const std::uint32_t difference = seed.compute(covered, static_cast<std::uint16_t>(from)) ^
                                   seed.compute(covered, static_cast<std::uint16_t>(to));
  wire::store_icrc(wire::load_icrc(icrc) ^ difference, icrc);
}

/// One packet with the route of others.
class Single {
 public:
  Single(const Packets& like, ByteSpan packet)
      : piece_{const_cast<std::byte*>(packet.data()), packet.size()},
        packets_{.to = like.to,
                 .path = like.path,
                 .seed = like.seed,
                 .pieces = std::span(&piece_, 1),
                 .packet_bytes = packet.size(),
                 .count = 1,
                 .lane = like.lane} {}
  Single(const Single&) = delete;
  Single& operator=(const Single&) = delete;
  const Packets& packets() const { return packets_; }

 private:
  const iovec piece_;
  const Packets packets_;
};

Remark remark_of(const FaultDecision& decision) {
  if (decision.corrupt) return Remark::corrupted;
  if (decision.delay != 0) return Remark::delayed;
  return decision.reorder ? Remark::reordered : Remark::none;
}

}  // namespace

void corrupt(const wire::IcrcSeed& seed, MutableByteSpan packet, std::uint64_t random) {
  // Not the bytes that select the receiver, nor those that the ICRC does not cover.
  constexpr std::size_t kFirst = 8;
  if (packet.size() <= kFirst) return;
  const std::size_t bits = (packet.size() - kFirst) * 8;
  for (std::size_t tried = 0; tried < bits; ++tried) {
    const std::size_t bit = (random + tried) % bits;
    std::byte& target = packet[kFirst + bit / 8];
    target ^= std::byte{1} << (bit & 7);
    // A receiver does not see the IP identification, so it may take a corruption for another
    // identification.
    if (!wire::verify_icrc(seed, packet, 0)) return;
    target ^= std::byte{1} << (bit & 7);
  }
}

/// A copy, in one piece, of packets that are sent together.
class Faults::Burst {
 public:
  explicit Burst(const Packets& packets) : like_(packets) {
    std::size_t total = 0;
    for (const iovec& piece : packets.pieces) total += piece.iov_len;
    bytes_.reserve(total);
    for (const iovec& piece : packets.pieces) {
      const auto* const start = static_cast<const std::byte*>(piece.iov_base);
      bytes_.insert(bytes_.end(), start, start + piece.iov_len);
    }
  }
  const Packets& like() const { return like_; }
  std::size_t count() const { return like_.count; }
  MutableByteSpan packet(std::size_t index) {
    return packet_of(MutableByteSpan(bytes_), like_.packet_bytes, index);
  }
  MutableByteSpan from_bth(std::size_t index) { return link::from_bth(like_.path, packet(index)); }
  /// Makes the packet's ICRC that of the `index`-th datagram of a call.
  void number(std::size_t packet, std::size_t index) {
    move_icrc(like_.seed, from_bth(packet), packet, index);
  }
  /// Sends packets [first, end), which have no fault, unchanged.
  int send_run(Link& to, std::size_t first, std::size_t end) {
    if (first == end) return 0;
    for (std::size_t i = first; i < end; ++i) number(i, i - first);
    const MutableByteSpan last = packet(end - 1);
    std::byte* const start = packet(first).data();
    const iovec piece{start, static_cast<std::size_t>(last.data() + last.size() - start)};
    return to.send({.to = like_.to,
                    .path = like_.path,
                    .seed = like_.seed,
                    .pieces = std::span(&piece, 1),
                    .packet_bytes = std::min(like_.packet_bytes, piece.iov_len),
                    .count = static_cast<std::uint32_t>(end - first),
                    .lane = like_.lane});
  }

 private:
  const Packets& like_;
  std::vector<std::byte> bytes_;
};

Faults::Faults(Link& next, observe::FaultCounters& counters, FaultWitness* witness, TimerFd timer,
               Clock clock)
    : Decorator(next),
      counters_(counters),
      witness_(witness),
      is_infiniband_(next.properties().first_header == FirstHeader::lrh),
      clock_(clock),
      timer_(std::move(timer)) {}

void Faults::set_plan(const FaultPlan& plan) {
  const std::lock_guard guard(lock_);
  plan_ = plan;
  history_ = {};
}

int Faults::send(const Packets& packets) noexcept {
  try {
    return send_some(packets);
  } catch (const std::bad_alloc&) {
    counters_.overflowed.add(packets.count);
    return ENOBUFS;
  }
}

int Faults::send_some(const Packets& packets) {
  Burst burst(packets);
  const auto decisions = decide(Direction::send, packets.path, burst.count(),
                                [&burst](std::size_t i) { return burst.from_bth(i); });
  if (decisions.empty()) {
    const int error = next().send(packets);
    send_reordered(packets.to);
    return error;
  }
  if (packets.spare != Reservation{}) next().release(packets.lane, packets.spare);
  int error = 0;
  std::size_t run = 0;  // First of the packets that wait to be sent together.
  for (std::size_t i = 0; i < burst.count(); ++i) {
    if (decisions[i].is_none()) {
      // A reordered packet is sent after the first one that follows it.
      if (reordered_.load(std::memory_order_relaxed) == 0) continue;
      error |= burst.send_run(next(), run, i + 1);
      send_reordered(packets.to);
    } else {
      error |= burst.send_run(next(), run, i);
      if (i > run) send_reordered(packets.to);
      error |= send_single(burst, i, decisions[i]);
    }
    run = i + 1;
  }
  error |= burst.send_run(next(), run, burst.count());
  return error == 0 ? 0 : ENOBUFS;
}

int Faults::send_single(Burst& burst, std::size_t index, const FaultDecision& decision) {
  const Packets& like = burst.like();
  burst.number(index, 0);
  const MutableByteSpan packet = burst.packet(index);
  if (decision.lose) {
    counters_.lost.add();
    if (witness_ != nullptr) witness_->note_lost(Single(like, packet).packets(), Remark::lost);
    if (is_infiniband_) next().release(like.lane, Reservation::of(packet.size()));
    return 0;
  }
  if (decision.corrupt) {
    counters_.corrupted.add();
    if (is_infiniband_) return damage_on_cable(burst, index, decision.random);
    corrupt(like.seed, burst.from_bth(index), decision.random);
  }
  const Remark remark = remark_of(decision);
  int error = 0;
  if (decision.delay != 0 || decision.reorder) {
    wait(like, packet, remark, decision.delay, decision.reorder);
  } else {
    error = send_one(like, packet, remark);
    send_reordered(like.to);
  }
  if (!decision.duplicate) return error;
  counters_.duplicated.add();
  if (decision.delay == 0) return error | send_one(like, packet, Remark::duplicated);
  wait(like, packet, Remark::duplicated, decision.delay, false);
  return error;
}

/// The next port finds it by its CRCs, which packets in shared memory have not.
int Faults::damage_on_cable(Burst& burst, std::size_t index, std::uint64_t random) noexcept {
  const Packets& like = burst.like();
  const MutableByteSpan packet = burst.packet(index);
  const MutableByteSpan covered = burst.from_bth(index);
  if (const auto icrc = wire::infiniband_icrc(packet)) {
    wire::store_icrc(*icrc, covered.last<wire::kIcrcBytes>());
    corrupt(like.seed, covered, random);
  }
  if (witness_ != nullptr) witness_->note_lost(Single(like, packet).packets(), Remark::corrupted);
  next().damage(like.lane, static_cast<std::uint32_t>(packet.size()));
  return 0;
}

int Faults::send_one(const Packets& like, ByteSpan packet, Remark remark) noexcept {
  const Single one(like, packet);
  if (witness_ != nullptr) return witness_->send_marked(one.packets(), remark);
  return next().send(one.packets());
}

void Faults::wait(const Packets& like, ByteSpan packet, Remark remark, TimeNs delay,
                  bool is_reordered) {
  const TimeNs due = clock_() + delay + (is_reordered ? kReorderTime : 0);
  Waiting waiting{.to = &like.to,
                  .path = like.path,
                  .seed = like.seed,
                  .lane = like.lane,
                  .remark = remark,
                  .is_reordered = is_reordered && delay == 0,
                  .bytes = std::vector<std::byte>(packet.begin(), packet.end())};
  {
    const std::lock_guard guard(lock_);
    if (waiting_.size() < kDelayedMax && waiting_bytes_ + packet.size() <= kDelayedBytesMax) {
      (is_reordered ? counters_.reordered : counters_.delayed).add();
      waiting_bytes_ += packet.size();
      if (waiting.is_reordered) reordered_.fetch_add(1, std::memory_order_relaxed);
      waiting_.emplace(due, std::move(waiting));
      if (due < timer_.at()) timer_.set(due);
      return;
    }
  }
  counters_.overflowed.add();
  if (witness_ != nullptr) witness_->note_lost(Single(like, packet).packets(), Remark::overflowed);
}

template <typename Chooses>
std::vector<Faults::Waiting> Faults::take_waiting(Chooses chooses) {
  std::vector<Waiting> taken;
  const std::lock_guard guard(lock_);
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    if (!chooses(at->first, at->second)) {
      ++at;
      continue;
    }
    waiting_bytes_ -= at->second.bytes.size();
    if (at->second.is_reordered) reordered_.fetch_sub(1, std::memory_order_relaxed);
    taken.push_back(std::move(at->second));
    at = waiting_.erase(at);
  }
  timer_.clear();
  timer_.set(waiting_.empty() ? kNever : waiting_.begin()->first);
  return taken;
}

void Faults::send_reordered(const NextHop& way) {
  if (reordered_.load(std::memory_order_relaxed) == 0) return;
  send_all(take_waiting(
      [&way](TimeNs, const Waiting& one) { return one.is_reordered && one.to == &way; }));
}

void Faults::send_due() {
  const TimeNs now = clock_();
  send_all(take_waiting([now](TimeNs due, const Waiting&) { return due <= now; }));
}

void Faults::send_all(const std::vector<Waiting>& packets) noexcept {
  for (const Waiting& one : packets) {
    const Packets like{.to = *one.to,
                       .path = one.path,
                       .seed = one.seed,
                       .pieces = {},
                       .packet_bytes = one.bytes.size(),
                       .count = 1,
                       .lane = one.lane};
    send_one(like, one.bytes, one.remark);
  }
}

}  // namespace verbatim::link
