#pragma once

#include <cstring>
#include <initializer_list>
#include <span>
#include <vector>

#include "ulp/disk/vhost/guest_memory.h"
#include "ulp/disk/vhost/protocol.h"

/// A guest's driver, and its memory: the ring's parts at fixed places, then data.
namespace verbatim::ulp::disk::vhost {

struct Descriptor {
  std::uint64_t address = 0;
  std::uint32_t bytes = 0;
  std::uint16_t flags = 0, next = 0;
};
inline constexpr std::uint16_t kNext = 1, kWrite = 2, kIndirect = 4;

class Guest {
 public:
  static constexpr std::uint64_t kGuest = 0x100000, kUser = 0x7f0000000000;
  static constexpr std::uint64_t kAvailable = 0x1000, kUsed = 0x2000, kData = 0x3000;
  static constexpr std::uint32_t kEntries = 8;

  explicit Guest(MutableByteSpan memory) : memory_(memory) {}

  static VringAddress addresses() {
    return {.descriptors = kUser, .used = kUser + kUsed, .available = kUser + kAvailable};
  }
  static std::uint64_t data(std::uint64_t at) { return kGuest + kData + at; }
  std::byte* data_at(std::uint64_t at) { return &memory_[kData + at]; }

  void set(std::uint16_t index, const Descriptor& descriptor) {
    std::memcpy(&memory_[index * sizeof descriptor], &descriptor, sizeof descriptor);
  }
  /// From `head` on, each with the next.
  void set_chain(std::uint16_t head, std::initializer_list<Descriptor> chain) {
    std::uint16_t at = head;
    for (Descriptor one : chain) {
      const auto next = static_cast<std::uint16_t>(at + 1);
      if (at + 1U < head + chain.size()) one.flags |= kNext, one.next = next;
      set(at, one);
      at = next;
    }
  }
  void offer(std::uint16_t head) {
    const std::size_t at = kAvailable + 4 + (available_ % kEntries) * sizeof head;
    std::memcpy(&memory_[at], &head, sizeof head);
    set_available(++available_);
  }
  void set_available(std::uint16_t index) {
    std::memcpy(&memory_[kAvailable + 2], &index, sizeof index);
  }
  std::uint16_t used() const {
    std::uint16_t index = 0;
    std::memcpy(&index, &memory_[kUsed + 2], sizeof index);
    return index;
  }
  struct Used {
    std::uint32_t head = 0, bytes = 0;
    friend bool operator==(const Used&, const Used&) = default;
  };
  Used used_at(std::uint16_t index) const {
    Used one;
    std::memcpy(&one, &memory_[kUsed + 4 + (index % kEntries) * sizeof one], sizeof one);
    return one;
  }

 private:
  MutableByteSpan memory_;
  std::uint16_t available_ = 0;
};

}  // namespace verbatim::ulp::disk::vhost
