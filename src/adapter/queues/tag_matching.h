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

/// Tag matching (rdma-core's tag_matching.md): receives that only messages with their tag take.
namespace verbatim::adapter {

inline constexpr std::uint32_t kTagsMax = 1 << 10;            // Of one list.
inline constexpr std::uint32_t kTagOperationsMax = 1 << 15;   // They end as they are posted.
inline constexpr std::uint32_t kRendezvousHeaderBytes = 256;  // A packet of every MTU holds them.

/// One operation on a list of tags: `struct ibv_ops_wr` in our types.
struct TagOperation {
  /// With the values of `enum ibv_ops_wr_opcode`.
  enum class Kind : std::uint8_t { add, remove, synchronize };
  Kind kind{};
  std::uint64_t wr_id = 0;
  bool signaled = false;
  std::optional<std::uint32_t> handled;  // How many unexpected messages the program has handled.
  std::uint32_t handle = 0;              // What `add` returned: of `remove`.
  // Of `add`:
  std::uint64_t receive_wr_id = 0;
  std::uint64_t tag = 0;
  std::uint64_t mask = 0;
  std::span<const Segment> segments;
};

/// The tagged receives of one queue, oldest first. Any thread may call anything.
///
/// A message that finds no tag is unexpected, and the program looks for its receive. Until it has
/// told that it has handled all of these, tags that it adds match nothing: a later message must not
/// overtake the unexpected one (tag_matching.md, "phase synchronization").
class TagMatching {
 public:
  explicit TagMatching(std::uint32_t tags_max);

  struct Outcome {
    transport::Status status{};  // tag_matching_error: the tag to be removed is not there any more.
    std::uint32_t handle = 0;    // Of `add`.
    bool must_synchronize = false;
  };
  /// ENOMEM when the list is full, EINVAL for too many segments.
  std::expected<Outcome, int> carry_out(const TagOperation& operation);

  enum class Taken : std::uint8_t { nothing, tagged, untagged };
  /// The receive of a message with this tag: the oldest tagged one that matches it, or what
  /// `take_untagged` puts into `out`, in which case the message is unexpected. One step: no tag is
  /// added between.
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
    std::uint16_t generation = 0;  // How often the place was used: half of the handle.
    ReceiveRequest receive;
  };
  std::uint32_t add(const TagOperation& operation);
  bool remove(std::uint32_t handle);
  bool match(std::uint64_t tag, ReceiveRequest& out);
  void erase(std::size_t position);
  bool in_step() const { return handled_ == unexpected_; }

  std::mutex lock_;                  // Guards everything.
  std::vector<Entry> entries_;       // By the lower half of the handle.
  std::vector<std::uint16_t> free_;  // Places of entries_ that are not in use.
  std::vector<std::uint16_t> order_;
  std::size_t awake_ = 0;  // So many of order_ match; the others wait for the synchronization.
  // Cards count in 16 bits, and so do programs.
  std::uint16_t unexpected_ = 0;
  std::uint16_t handled_ = 0;
};

/// What the message that a queue pair is receiving is to its queue's list of tags.
struct TaggedMessage {
  enum class Kind : std::uint8_t {
    none,    // Not tag matching's matter.
    no_tag,  // Without a tag, by its header or for want of one.
    unexpected,
    eager,
    rendezvous,
    rendezvous_too_long,  // For the receive: the program goes on with the header.
  };
  Kind kind = Kind::none;
  bool match_reported = false;  // A completion of its own has said that it matched.
  wire::TagHeader header;
  std::array<std::byte, wire::TagHeader::kRendezvousSize> bytes{};  // Of a rendezvous.

  /// By its first bytes; nothing is matched yet.
  static TaggedMessage read(ByteSpan payload);
  bool is_rendezvous() const { return kind == Kind::rendezvous; }
  wire::Reth source() const {
    return wire::decode_reth(std::span(bytes).subspan<wire::TagHeader::kSize, wire::Reth::kSize>());
  }
  /// What the peer may send into a receive of `capacity` bytes.
  std::uint64_t room(std::uint64_t capacity) const;
  /// Of the part of the message that begins at `offset`: what goes into the receive, and where.
  struct Part {
    std::uint64_t offset = 0;
    ByteSpan payload;
  };
  Part part(std::uint64_t offset, ByteSpan payload, std::uint64_t capacity) const;
  /// Makes the entry of a receive one of tag matching.
  void describe(Completion& completion) const;
  /// Another entry before the last: the message has matched, its data is on its way.
  void describe_match(Completion& completion) const;
};

}  // namespace verbatim::adapter
