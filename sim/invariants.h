#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "transport/work.h"

/// Checkers of invariants. Each is told what happens and records violations in words; a test
/// requires that there are none.
namespace verbatim::sim {

using Violations = std::vector<std::string>;

/// Each posted request completes exactly once, in the order of posting; after the first failure all
/// are flushed.
class SendCompletions {
 public:
  void posted(transport::Slot slot);
  /// Checks that a local operation is executed once and in order.
  void executed(transport::Slot slot);
  void completed(transport::Slot slot, transport::Status status);
  /// At the end: checks that nothing is missing.
  void finish();

  std::uint64_t posted_count() const { return posted_; }
  std::uint64_t completed_count() const { return completed_; }
  /// The status of the first request that failed.
  transport::Status first_failure() const { return first_failure_; }
  const Violations& violations() const { return violations_; }

 private:
  std::uint64_t posted_ = 0;
  std::uint64_t completed_ = 0;
  std::uint64_t executed_end_ = 0;
  transport::Status first_failure_ = transport::Status::success;
  Violations violations_;
};

/// A message that the peer's receive requests must report.
struct ExpectedMessage {
  bool is_write = false;  // WRITE with immediate.
  bool has_immediate = false;
  std::uint32_t immediate = 0;
  bool solicited = false;
  MemoryKey invalidated{};       // Zero: none.
  std::vector<std::byte> bytes;  // For a WRITE only their number matters.
};

/// A service's guarantee about messages. UC starts again with any first packet (IBA 9.8.2.2), so if
/// a network repeats or reorders packets, UC may repeat or reorder messages.
enum class Promise {
  exactly_once,  // In order.
  at_most_once,  // In order.
  intact,        // Whole, never a mixture of two.
};

/// Each receive request completes at most once, in the order of posting, with the next message (or,
/// depending on the guarantee, one that was sent).
class Deliveries {
 public:
  explicit Deliveries(Promise promise) : promise_(promise) {}

  void sent(ExpectedMessage message) { expected_.push_back(std::move(message)); }
  struct Arrived {
    std::uint64_t ticket = 0;
    bool is_write = false;
    bool has_immediate = false;
    std::uint32_t immediate = 0;
    bool solicited = false;
    MemoryKey invalidated{};
    std::uint64_t byte_count = 0;
    ByteSpan bytes;  // Content of the receive's buffer.
  };
  void received(const Arrived& arrived);
  /// At the end, if every request has succeeded: checks that nothing is missing.
  void finish();

  std::uint64_t received_count() const { return received_; }
  const Violations& violations() const { return violations_; }

 private:
  static bool matches(const ExpectedMessage& message, const Arrived& arrived);

  Promise promise_;
  std::vector<ExpectedMessage> expected_;
  std::size_t next_ = 0;  // Index in `expected_`.
  std::uint64_t received_ = 0;
  std::uint64_t next_ticket_ = 0;
  Violations violations_;
};

}  // namespace verbatim::sim
