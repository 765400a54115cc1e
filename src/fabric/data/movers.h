#pragma once

#include <cstdint>
#include <new>
#include <vector>

#include "base/error.h"
#include "fabric/data/image/image.h"

/// The table of threads that move packets. An entry shows whether its thread lives.
namespace verbatim::fabric {

class Movers {
 public:
  explicit Movers(const Image& image) : image_(image) {}

  /// Takes an entry for the calling thread, of the program that has `end`. The thread calls `leave`
  /// before it unmaps the image. EAGAIN if there is none.
  Result<std::uint32_t> join(std::uint32_t end = 0) const;
  /// Frees the entries that threads of a dead program had begun to take. Until they have, they own
  /// no gate.
  void free_claims(std::uint32_t end) const;
  void leave(std::uint32_t mover) const;
  /// True if the thread has ended. One load. A gate whose owner's entry is free is nobody's.
  bool is_dead(std::uint32_t mover) const {
    const MoverRecord& record = image_.mover(mover & kIndexMask);
    // Another thread has the entry by now.
    if (name_of(mover & kIndexMask) != mover) return true;
    const std::uint32_t state = record.state.load(std::memory_order_acquire);
    return state == MoverRecord::kFree ||
           (state == MoverRecord::kLives && liveness_of(record).has_ended());
  }
  /// Frees the entries of threads that had ended before `repair`, which returns when none of them
  /// owns a gate any more.
  template <typename Repair>
  void bury(Repair repair) const;

 private:
  /// A thread's name is the index of its entry and how often that was taken: so a name that was
  /// read while its thread lived never names a later one.
  static constexpr unsigned kIndexBits = 16;
  static constexpr std::uint32_t kIndexMask = (1u << kIndexBits) - 1;
  std::uint32_t name_of(std::uint32_t index) const {
    return image_.mover(index).generation.load(std::memory_order_acquire) << kIndexBits | index;
  }
  static std::uint32_t claim_of(std::uint32_t end) { return MoverRecord::kClaimed + 4 * end; }
  static const Liveness& liveness_of(const MoverRecord& record) {
    return *std::launder(reinterpret_cast<const Liveness*>(record.liveness.data()));
  }
  static Liveness& liveness_of(MoverRecord& record) {
    return *std::launder(reinterpret_cast<Liveness*>(record.liveness.data()));
  }
  const Image& image_;
};

template <typename Repair>
void Movers::bury(Repair repair) const {
  std::vector<std::uint32_t> dead;
  for (std::uint32_t i = 1; i < image_.extent().movers; ++i) {
    if (image_.mover(i).state.load() == MoverRecord::kLives && is_dead(name_of(i))) {
      dead.push_back(i);
    }
  }
  if (dead.empty()) return;
  repair();
  for (const std::uint32_t i : dead) image_.mover(i).state.store(MoverRecord::kFree);
}

}  // namespace verbatim::fabric
