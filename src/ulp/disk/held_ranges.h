#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"
#include "ulp/engine/work.h"

namespace verbatim::ulp::disk {

/// Bytes that a lost session was writing. The target may have the command still, and carry it out
/// when the same write has come by another session, was answered, and its user has written
/// something else there: that would be lost. So later writes to these bytes wait until the target
/// has certainly ended the session. What is repeated itself does not wait, for it is the same
/// bytes.
class HeldRanges {
 public:
  /// Of more, all bytes are held.
  static constexpr std::size_t kMax = 256;

  void add(Tag piece, std::uint64_t offset, std::uint64_t bytes, std::uint32_t path, TimeNs until);
  /// Until when a write must wait; 0: it need not.
  TimeNs held_until(Tag piece, std::uint64_t offset, std::uint64_t bytes, TimeNs now);
  /// The target has ended all that came by this path.
  void release(std::uint32_t path);
  /// The piece is answered: its tag may be another's soon.
  void forget(Tag piece);
  bool empty() const { return ranges_.empty(); }

 private:
  static constexpr std::uint32_t kAnyPath = ~0u;
  struct Range {
    Tag piece{};
    std::uint64_t offset = 0, bytes = 0;
    std::uint32_t path = 0;
    TimeNs until = 0;
  };
  std::vector<Range> ranges_;
};

}  // namespace verbatim::ulp::disk
