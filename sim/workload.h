#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "sim/pair.h"

namespace verbatim::sim {

struct WorkloadOptions {
  std::vector<transport::Operation> operations;
  std::uint32_t requests = 20;
  std::uint32_t message_packets_max = 6;  // Messages have 0 bytes to this many full packets.
  double fence = 0.1;
  /// Probability, at each event, that missing receive requests are posted. Below 1 there are RNR
  /// NAKs.
  double receive_posting = 1;
};

/// Random requests from one node to the other, and a model of their effects: the memory that WRITEs
/// change, the bytes that READs return, the values that atomics return, the messages that receives
/// report.
///
/// The nodes' memory: source (constant; for sends and READs) | target (for WRITEs) | 8 words for
/// atomics | results (one slot for each request of the depth) | receive buffers.
class Workload {
 public:
  static constexpr std::uint32_t kReceives = 8;
  static std::size_t memory_bytes(const PairOptions& pair, const WorkloadOptions& options);

  Workload(Pair& pair, int from, const PairOptions& pair_options, const WorkloadOptions& options);
  /// Posts as many requests as there is room for, on both nodes.
  void step();
  bool done() const;
  /// At the end: returns what is wrong in the target's memory and in the completions.
  Violations finish();

 private:
  struct Expected {
    transport::Operation operation{};
    std::size_t source = 0;  // READ: offset of the bytes.
    LocalBuffer local;
    std::uint64_t original = 0;  // Atomics only.
  };
  static constexpr std::size_t kWords = 8;

  void post_one();
  void post_receives();
  void post_message(transport::SendRequest& request, Expected& expected);
  void post_read(transport::SendRequest& request, Expected& expected);
  void post_atomic(transport::SendRequest& request, Expected& expected);
  void post_atomic_write(transport::SendRequest& request, Expected& expected);
  void post_flush(transport::SendRequest& request);
  std::size_t random_length();
  void on_completed(transport::Slot slot, transport::Status status);
  void check_target();

  std::size_t target_offset() const { return area_; }
  std::size_t words_offset() const { return 2 * area_; }
  std::size_t results_offset() const { return words_offset() + kWords * 8; }
  std::size_t receives_offset() const { return results_offset() + depth_ * message_max_; }

  Random& random_;
  Node& from_;
  Node& to_;
  WorkloadOptions options_;
  bool may_lose_;
  std::uint32_t depth_;
  std::size_t mtu_;
  std::size_t message_max_;
  std::size_t area_;
  std::uint32_t posted_ = 0;
  std::uint64_t receives_ = 0;
  std::deque<Expected> outstanding_;
  std::vector<std::byte> target_;  // The expected content.
  std::uint64_t words_[kWords] = {};
  Violations violations_;
};

}  // namespace verbatim::sim
