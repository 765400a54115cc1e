#pragma once

#include <array>
#include <cstdint>

#include "base/assert.h"
#include "transport/ib/requester/request_ring.h"

namespace verbatim::transport {

/// READ and atomic requests whose responses are incomplete, oldest first: at most max_rd_atomic
/// (the peer's responder resources, IBA 9.7.4). A large READ of the program is split into several.
/// A repeated one keeps its end, because a responder may refuse a repetition that runs past the
/// request that it remembers (IBA 9.7.5, duplicate READs).
class OutstandingReads {
 public:
  static constexpr std::uint32_t kMax = 128;
  struct Range {
    Sequence first = 0;
    Sequence end = 0;
  };

  void clear() { first_ = count_ = 0; }
  bool empty() const { return count_ == 0; }
  std::uint32_t size() const { return count_; }
  const Range& oldest() const { return ranges_[first_ % kMax]; }

  void push(Range range) {
    VERBATIM_ASSERT(count_ < kMax);
    ranges_[(first_ + count_++) % kMax] = range;
  }
  /// Removes those that end at or before `sequence`.
  void answered(Sequence sequence) {
    while (count_ > 0 && oldest().end <= sequence) {
      ++first_;
      --count_;
    }
  }
  /// Returns the one that contains `sequence`, which must exist. It is usually the oldest.
  const Range& holding(Sequence sequence) const {
    std::uint32_t i = first_;
    while (i != first_ + count_ && sequence >= ranges_[i % kMax].end) ++i;
    VERBATIM_ASSERT(i != first_ + count_ && sequence >= ranges_[i % kMax].first);
    return ranges_[i % kMax];
  }

 private:
  std::array<Range, kMax> ranges_{};
  std::uint32_t first_ = 0;
  std::uint32_t count_ = 0;
};

}  // namespace verbatim::transport
