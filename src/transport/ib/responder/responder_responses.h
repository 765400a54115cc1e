#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/types.h"
#include "transport/ib/outgoing_packet.h"

namespace verbatim::transport {

/// The READs and atomics (also FLUSHes and ATOMIC WRITEs, annex A19) of a responder. They are
/// remembered, so that a repetition gets the same answer, and answered packet by packet in the
/// order of the requests (IBA 9.7.5.1). Only the newest `max_dest_rd_atomic` are remembered: a
/// requester that obeys its `max_rd_atomic` repeats no others.
///
/// Each remembered request is in the queue of answers at most once, so the queue cannot overflow.
class ResponseQueue {
 public:
  /// The largest `max_dest_rd_atomic`.
  static constexpr std::uint32_t kDepthMax = 128;

  void reset(std::uint32_t depth, Mtu path_mtu, wire::Service service);

  /// Returns true if every remembered request still waits for its first answer: another one would
  /// exceed `max_dest_rd_atomic`.
  bool full() const;
  /// Remembers a new request. Requires that it is not full. A READ enters the queue of answers at
  /// once, the others when their result is known.
  void add_read(Psn first_psn, wire::Msn msn, const wire::Reth& reth, PdNumber pd,
                SrqNumber srq = {});
  void add_executed(Psn psn, wire::Msn msn, wire::Verb verb);
  void set_atomic_result(std::uint64_t original);

  /// Repeats a READ or its later part: the answer starts again at `psn`. Returns false if no
  /// remembered READ contains these bytes.
  bool repeat_read(Psn psn, const wire::Reth& reth);
  /// Returns false if no such request is remembered.
  bool repeat_executed(Psn psn, wire::Verb verb);

  /// An acknowledgement's range: the PSN, and the number of messages that are complete up to it.
  struct Reach {
    Psn psn;
    wire::Msn msn;
    friend bool operator==(const Reach&, const Reach&) = default;
  };
  /// Returns the range up to the packet before the first remembered request after `psn` and before
  /// `end`; nothing if there is none.
  std::optional<Reach> reach_between(Psn psn, Psn end) const;

  bool empty() const { return queued_ == 0; }
  /// Returns the PSN of the next packet. Requires that it is not empty.
  Psn next_psn() const;
  /// Builds the next packet: opcode, PSN, AETH, AtomicAckETH and payload. Requires that it is not
  /// empty.
  void poll(OutgoingPacket& out);

  /// The packet from the last poll could not be sent, because its memory was refused. Undoes what
  /// depends on it. Returns its PSN and the number of messages complete before it; nothing if it
  /// repeated an earlier answer.
  std::optional<Reach> fail_last();

  std::uint32_t packets_of(std::uint32_t length) const;

 private:
  struct Entry {
    Psn first_psn;
    wire::Msn msn;
    wire::Verb verb{};
    bool answered = false;  // The whole answer was sent at least once.
    bool queued = false;
    MemoryKey key{};
    std::uint64_t address = 0;
    PdNumber pd{};
    SrqNumber srq{};
    std::uint32_t length = 0;  // READ: the current answer covers bytes [start, end) of it,
    std::uint32_t start = 0;   // and [next, end) remains to be sent.
    std::uint32_t next = 0;
    std::uint32_t end = 0;
    std::uint64_t original = 0;  // Atomic: the old value.
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
  std::array<Entry, kDepthMax> entries_{};  // Ring of `depth_`: `count_` entries from `oldest_` on.
  std::uint32_t oldest_ = 0;
  std::uint32_t count_ = 0;
  std::array<std::uint8_t, kDepthMax> queue_{};  // Ring of `depth_` indexes of entries.
  std::uint32_t queue_head_ = 0;
  std::uint32_t queued_ = 0;
  Entry* last_polled_ = nullptr;
  Psn last_psn_;
  bool last_was_repetition_ = false;
};

}  // namespace verbatim::transport
