#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "transport/work.h"

/// Checkers of what must hold in every run. Each is an object of its own that is told what happens
/// and keeps what was wrong in words; a test demands that there is nothing.
namespace verbatim::sim {

using Violations = std::vector<std::string>;

/// Each posted request completes exactly once, in the order of posting; after the first failure all
/// are flushed.
class SendCompletions {
 public:
  void posted(transport::Slot slot);
  /// A local operation is carried out once, in its turn.
  void executed(transport::Slot slot);
  void completed(transport::Slot slot, transport::Status status);
  /// At the end: nothing is left over.
  void finish();

  std::uint64_t posted_count() const { return posted_; }
  std::uint64_t completed_count() const { return completed_; }
  /// The status of the first request that did not succeed.
  transport::Status first_failure() const { return first_failure_; }
  const Violations& violations() const { return violations_; }

 private:
  std::uint64_t posted_ = 0;
  std::uint64_t completed_ = 0;
  std::uint64_t executed_end_ = 0;
  transport::Status first_failure_ = transport::Status::success;
  Violations violations_;
};

/// A message that the peer's receive requests must tell of.
struct ExpectedMessage {
  bool is_write = false;  // WRITE with immediate.
  bool has_immediate = false;
  std::uint32_t immediate = 0;
  bool solicited = false;
  MemoryKey invalidated{};       // Zero: none.
  std::vector<std::byte> bytes;  // Of a SEND; of a WRITE only their number.
};

/// What a service promises about messages. UC begins anew with any first packet (IBA 9.8.2.2), so a
/// network that repeats or reorders packets makes it repeat or reorder messages.
enum class Promise {
  exactly_once,  // In order.
  at_most_once,  // In order.
  intact,        // Whole, and never a mixture of two.
};

/// Each receive request completes at most once, in the order of posting, with the next message (or,
/// as promised, one that was sent).
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
    ByteSpan bytes;  // What stands in the receive's buffer.
  };
  void received(const Arrived& arrived);
  /// At the end, when every request has succeeded: nothing is missing.
  void finish();

  std::uint64_t received_count() const { return received_; }
  const Violations& violations() const { return violations_; }

 private:
  static bool matches(const ExpectedMessage& message, const Arrived& arrived);

  Promise promise_;
  std::vector<ExpectedMessage> expected_;
  std::size_t next_ = 0;  // Of `expected_`.
  std::uint64_t received_ = 0;
  std::uint64_t next_ticket_ = 0;
  Violations violations_;
};

}  // namespace verbatim::sim
