#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/types.h"
#include "transport/ib/outgoing_packet.h"

namespace verbatim::transport {

/// The READs and atomics (and FLUSHes and ATOMIC WRITEs, annex A19) of a responder: remembered so
/// that a repetition gets the same answer, and answered packet by packet in the order of the
/// requests (IBA 9.7.5.1). Bounded by `max_dest_rd_atomic`: the newest ones are remembered, which
/// are all that a requester which keeps to its `max_rd_atomic` can repeat.
///
/// Each remembered request stands in the queue of answers at most once, so nothing here can
/// overflow.
class ResponseQueue {
 public:
  /// Most that `max_dest_rd_atomic` may say.
  static constexpr std::uint32_t kDepthMax = 128;

  void reset(std::uint32_t depth, Mtu path_mtu, wire::Service service);

  /// True when every remembered request still waits for its first answer: another one would be more
  /// than `max_dest_rd_atomic` outstanding.
  bool full() const;
  /// Remembers a new request; the caller has seen that it is not full. A READ enters the queue of
  /// answers at once, what is executed when its result is known.
  void add_read(Psn first_psn, wire::Msn msn, const wire::Reth& reth, PdNumber pd,
                SrqNumber srq = {});
  void add_executed(Psn psn, wire::Msn msn, wire::Verb verb);
  void set_atomic_result(std::uint64_t original);

  /// A repetition of the whole of a READ or of its later part: the answer starts again at `psn`.
  /// False where no remembered READ has these bytes.
  bool repeat_read(Psn psn, const wire::Reth& reth);
  /// False where no such request is remembered.
  bool repeat_executed(Psn psn, wire::Verb verb);

  /// How far an acknowledgement reaches: a PSN, and how many messages are complete up to it.
  struct Reach {
    Psn psn;
    wire::Msn msn;
    friend bool operator==(const Reach&, const Reach&) = default;
  };
  /// Up to the packet before the first remembered request that is after `psn` and before `end`;
  /// nothing where there is none.
  std::optional<Reach> reach_between(Psn psn, Psn end) const;

  bool empty() const { return queued_ == 0; }
  /// PSN of the next packet. Not when empty.
  Psn next_psn() const;
  /// The next packet: opcode, PSN, AETH, AtomicAckETH and payload. Not when empty.
  void poll(OutgoingPacket& out);

  /// The packet polled last could not be sent, because its memory refused. Takes back what depends
  /// on it. Returns its PSN and the messages complete before it, or nothing where it repeated an
  /// answer that has been given before.
  std::optional<Reach> fail_last();

  std::uint32_t packets_of(std::uint32_t length) const;

 private:
  struct Entry {
    Psn first_psn;
    wire::Msn msn;
    wire::Verb verb{};
    bool answered = false;  // The whole answer has been sent at least once.
    bool queued = false;
    MemoryKey key{};
    std::uint64_t address = 0;
    PdNumber pd{};
    SrqNumber srq{};
    std::uint32_t length = 0;  // Of the READ; the answer under way covers bytes [start, end) of it,
    std::uint32_t start = 0;   // and [next, end) is left to send.
    std::uint32_t next = 0;
    std::uint32_t end = 0;
    std::uint64_t original = 0;  // Of the atomic.
  };

  Entry& add(Psn psn, wire::Msn msn, wire::Verb verb);
  Entry* find(Psn psn);
  const Entry& oldest() const { return entries_[oldest_]; }
  Entry& newest() { return entries_[(oldest_ + count_ - 1) % depth_]; }
  Entry& head() { return entries_[queue_[queue_head_]]; }
  const Entry& head() const { return entries_[queue_[queue_head_]]; }
  void enqueue(Entry& entry);
  void dequeue(Entry& entry);
  Psn psn_of(const Entry& entry) const;
  void poll_read(Entry& entry, OutgoingPacket& out) const;

  std::uint32_t depth_ = 0;
  std::uint32_t mtu_bytes_ = bytes_of(Mtu::k1024);
  wire::Service service_ = wire::Service::rc;
  std::array<Entry, kDepthMax> entries_{};  // A ring of `depth_`: `count_` from `oldest_` on.
  std::uint32_t oldest_ = 0;
  std::uint32_t count_ = 0;
  std::array<std::uint8_t, kDepthMax> queue_{};  // Indexes of entries; a ring of `depth_`.
  std::uint32_t queue_head_ = 0;
  std::uint32_t queued_ = 0;
  Entry* last_polled_ = nullptr;
  Psn last_psn_;
  bool last_was_repetition_ = false;
};

}  // namespace verbatim::transport
