#pragma once

#include <array>
#include <cstdint>
#include <expected>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "adapter/queues/completion_queue.h"
#include "adapter/queues/receive_queue.h"
#include "base/bytes.h"
#include "transport/work.h"
#include "wire/ib/tag_header.h"

/// Tag matching (rdma-core's tag_matching.md): receives for messages with a given tag.
namespace verbatim::adapter {

inline constexpr std::uint32_t kTagsMax = 1 << 10;            // In a list.
inline constexpr std::uint32_t kTagOperationsMax = 1 << 15;   // They complete when they are posted.
inline constexpr std::uint32_t kRendezvousHeaderBytes = 256;  // They fit in a packet of every MTU.

/// An operation on a tag list: `struct ibv_ops_wr` in our types.
struct TagOperation {
  /// With the values of `enum ibv_ops_wr_opcode`.
  enum class Kind : std::uint8_t { add, remove, synchronize };
  Kind kind{};
  std::uint64_t wr_id = 0;
  bool signaled = false;
  std::optional<std::uint32_t>
      handled;               // Number of unexpected messages that the program has handled.
  std::uint32_t handle = 0;  // For `remove`: the result of `add`.
  // For `add`:
  std::uint64_t receive_wr_id = 0;
  std::uint64_t tag = 0;
  std::uint64_t mask = 0;
  std::span<const Segment> segments;
};

/// The tagged receives of one queue, oldest first. Thread-safe.
///
/// A message that matches no tag is unexpected, and the program searches for its receive. Until the
/// program has reported that it has handled all of these, tags that it adds match no message: a
/// later message must not overtake the unexpected one (tag_matching.md, "phase synchronization").
class TagMatching {
 public:
  explicit TagMatching(std::uint32_t tags_max);

  struct Outcome {
    transport::Status status{};  // tag_matching_error: the tag to remove is gone.
    std::uint32_t handle = 0;    // For `add`.
    bool must_synchronize = false;
  };
  /// ENOMEM if the list is full, EINVAL for too many segments.
  std::expected<Outcome, int> carry_out(const TagOperation& operation);

  enum class Taken : std::uint8_t { nothing, tagged, untagged };
  /// Takes the receive for a message with this tag: the oldest matching one, or what
  /// `take_untagged` writes to `out`; then the message is unexpected. Atomic: no tag is added in
  /// between.
  template <typename TakeUntagged>
  Taken take(std::uint64_t tag, bool may_match, ReceiveRequest& out, TakeUntagged take_untagged) {
    const std::lock_guard guard(lock_);
    if (may_match && match(tag, out)) return Taken::tagged;
    if (!take_untagged()) return Taken::nothing;
    ++unexpected_;
    return Taken::untagged;
  }

 private:
  struct Entry {
    std::uint64_t tag = 0;
    std::uint64_t mask = 0;
    std::uint16_t generation = 0;  // How often the entry was used: half of the handle.
    ReceiveRequest receive;
  };
  std::uint32_t add(const TagOperation& operation);
  bool remove(std::uint32_t handle);
  bool match(std::uint64_t tag, ReceiveRequest& out);
  void erase(std::size_t position);
  bool in_step() const { return handled_ == unexpected_; }

  std::mutex lock_;                  // Protects all members.
  std::vector<Entry> entries_;       // By the lower half of the handle.
  std::vector<std::uint16_t> free_;  // Unused indexes of entries_.
  std::vector<std::uint16_t> order_;
  // This many of order_ can match; the others wait for the synchronization.
  std::size_t awake_ = 0;
  // 16 bits, as cards and programs count.
  std::uint16_t unexpected_ = 0;
  std::uint16_t handled_ = 0;
};

/// State of the message that a queue pair is receiving, with regard to its queue's tag list.
struct TaggedMessage {
  enum class Kind : std::uint8_t {
    none,    // Not for tag matching.
    no_tag,  // Without a tag: its header says so, or is missing.
    unexpected,
    eager,
    rendezvous,
    rendezvous_too_long,  // Too long for the receive: the program continues with the header.
  };
  Kind kind = Kind::none;
  bool match_reported = false;  // A separate completion has reported the match.
  wire::TagHeader header;
  std::array<std::byte, wire::TagHeader::kRendezvousSize> bytes{};  // Of a rendezvous.

  /// Reads the first bytes of the message; nothing is matched yet.
  static TaggedMessage read(ByteSpan payload);
  bool is_rendezvous() const { return kind == Kind::rendezvous; }
  wire::Reth source() const {
    return wire::decode_reth(std::span(bytes).subspan<wire::TagHeader::kSize, wire::Reth::kSize>());
  }
  /// Returns what the peer may send to a receive of `capacity` bytes.
  std::uint64_t room(std::uint64_t capacity) const;
  /// The part of the message from `offset` on: what is copied to the receive, and where.
  struct Part {
    std::uint64_t offset = 0;
    ByteSpan payload;
  };
  Part part(std::uint64_t offset, ByteSpan payload, std::uint64_t capacity) const;
  /// Completes the fields of tag matching in the receive's entry.
  void describe(Completion& completion) const;
  /// A separate entry before it: the message has matched, its data follows.
  void describe_match(Completion& completion) const;
};

}  // namespace verbatim::adapter
