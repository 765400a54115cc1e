#pragma once

#include <optional>
#include <vector>

#include "ulp/engine/slice.h"

namespace verbatim::ulp::lnet {

/// Registered memory for a payload that does not fit into a message. Peers may write into it.
struct Buffer {
  Slice memory;
  MemoryKey remote_key{};
};

/// All that a node has, of one size.
class Buffers {
 public:
  static constexpr std::uint32_t kBytes = 1 << 20;  // What LNet moves at most at once.
  Buffers() = default;
  explicit Buffers(std::vector<Buffer> all) : free_(std::move(all)) {}
  std::optional<Buffer> take() {
    if (free_.empty()) return std::nullopt;
    const Buffer buffer = free_.back();
    free_.pop_back();
    return buffer;
  }
  void give_back(Buffer buffer) {
    buffer.memory.bytes = kBytes;
    free_.push_back(buffer);
  }
  std::size_t free_count() const { return free_.size(); }

 private:
  std::vector<Buffer> free_;
};

}  // namespace verbatim::ulp::lnet
