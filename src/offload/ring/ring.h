#pragma once

#include <atomic>
#include <cstdint>

#include <unistd.h>

#include "offload/ring/layout.h"

/// How C++ reads and writes the fields of layout.h that two processes share.
namespace verbatim::offload {

template <typename T>
T acquire(const T& field) {
  return __atomic_load_n(&field, __ATOMIC_ACQUIRE);
}
template <typename T>
T relaxed(const T& field) {
  return __atomic_load_n(&field, __ATOMIC_RELAXED);
}
template <typename T>
void release(T& field, T value) {
  __atomic_store_n(&field, value, __ATOMIC_RELEASE);
}
/// Adds to a counter that this thread alone writes.
inline void count(__u64& counter, std::uint64_t amount = 1) {
  __atomic_store_n(&counter, counter + amount, __ATOMIC_RELAXED);
}

/// Wakes the card if it says that it sleeps. Call it after a cursor was posted: the fence orders
/// the post before the look, as the card says that it sleeps before its last look at the cursors.
inline void wake_card(const __u32& asleep, int doorbell) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (relaxed(asleep) == 0) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(doorbell, &one, sizeof one);
}
inline void ring_doorbell(const vnic_region& region, int doorbell) {
  wake_card(region.asleep, doorbell);
}

static_assert(sizeof(vnic_match) == 64 && sizeof(vnic_descriptor) == 16);

}  // namespace verbatim::offload
