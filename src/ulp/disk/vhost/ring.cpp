#include "ulp/disk/vhost/ring.h"

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "ulp/engine/little_endian.h"

namespace verbatim::ulp::disk::vhost {
namespace {

constexpr std::uint16_t kNext = 1, kWrite = 2, kIndirect = 4;  // A descriptor's flags.
constexpr std::uint16_t kNoInterrupt = 1;                      // Of the available ring.
constexpr std::size_t kDescriptorBytes = 16, kUsedBytes = 8;
/// Both rings begin with flags and an index, of two bytes each.
constexpr std::size_t kIndexAt = 2, kRingAt = 4;

struct Descriptor {
  std::uint64_t address;
  std::uint32_t bytes;
  std::uint16_t flags, next;
};
static_assert(sizeof(Descriptor) == kDescriptorBytes);

std::uint16_t load(std::byte* at, std::memory_order order = std::memory_order_relaxed) {
  return to_little_endian(std::atomic_ref(*reinterpret_cast<std::uint16_t*>(at)).load(order));
}

bool is_aligned(const std::byte* at, std::uintptr_t alignment) {
  return reinterpret_cast<std::uintptr_t>(at) % alignment == 0;
}

}  // namespace

Result<void> Ring::set_entries(std::uint32_t entries) {
  if (!std::has_single_bit(entries) || entries > kEntriesMax)
    return refuse(
        EINVAL, fmt::format("a ring of {} entries: a power of two is expected, at most {}", entries,
                            kEntriesMax));
  end();
  entries_ = entries;
  return {};
}

Result<void> Ring::begin(const GuestMemory& memory) {
  end();
  const std::size_t count = entries_;
  std::byte* const descriptors = memory.find_user(address_.descriptors, count * kDescriptorBytes);
  std::byte* const available =
      memory.find_user(address_.available, kRingAt + count * sizeof(std::uint16_t));
  std::byte* const used = memory.find_user(address_.used, kRingAt + count * kUsedBytes);
  if (count == 0 || descriptors == nullptr || available == nullptr || used == nullptr ||
      !is_aligned(descriptors, alignof(std::uint64_t)) ||
      !is_aligned(available, sizeof(std::uint16_t)) || !is_aligned(used, sizeof(std::uint32_t)))
    return refuse(EINVAL,
                  fmt::format("a ring of {} entries at {:#x}, {:#x}, {:#x} is not in the "
                              "memory that is shared",
                              count, address_.descriptors, address_.available, address_.used));
  descriptors_ = descriptors, available_ = available, used_ = used;
  next_used_ = load(used_ + kIndexAt);
  return {};
}

Result<std::optional<Chain>> Ring::take() {
  const std::uint16_t index = load(available_ + kIndexAt, std::memory_order_acquire);
  const auto waiting = static_cast<std::uint16_t>(index - next_);
  if (waiting == 0) return std::nullopt;
  if (waiting > entries_)
    return refuse(EPROTO, fmt::format("the guest says that {} requests wait in a ring of {}",
                                      waiting, entries_));
  const std::uint16_t head =
      load(available_ + kRingAt + (next_ & (entries_ - 1)) * sizeof(std::uint16_t));
  auto chain = walk(head);
  if (!chain) return std::unexpected(chain.error());
  ++next_;
  return std::move(*chain);
}

Result<Chain> Ring::walk(std::uint16_t head) const {
  Chain chain{.head = head, .readable = {}, .writable = {}};
  std::uint16_t at = head;
  for (std::uint32_t count = 0; count < entries_; ++count) {
    if (at >= entries_)
      return refuse(EPROTO, fmt::format("descriptor {} of a ring of {}", at, entries_));
    Descriptor one;  // Read once: the guest may change it.
    std::memcpy(&one, descriptors_ + at * kDescriptorBytes, sizeof one);
    const std::uint16_t flags = to_little_endian(one.flags);
    const bool is_written = (flags & kWrite) != 0;
    if ((flags & kIndirect) != 0)
      return refuse(EPROTO, "an indirect descriptor, which was not offered");
    if (!is_written && !chain.writable.empty())
      return refuse(EPROTO, "a readable descriptor behind a writable one");
    const Piece piece{to_little_endian(one.address), to_little_endian(one.bytes)};
    (is_written ? chain.writable : chain.readable).push_back(piece);
    (is_written ? chain.writable_bytes : chain.readable_bytes) += piece.bytes;
    if ((flags & kNext) == 0) return chain;
    at = to_little_endian(one.next);
  }
  return refuse(EPROTO, fmt::format("a chain of more than {} descriptors", entries_));
}

void Ring::put(std::uint16_t head, std::uint32_t bytes) {
  const std::uint32_t entry[] = {to_little_endian(std::uint32_t{head}), to_little_endian(bytes)};
  std::memcpy(used_ + kRingAt + (next_used_ & (entries_ - 1)) * kUsedBytes, entry, sizeof entry);
  ++next_used_;
  std::atomic_ref(*reinterpret_cast<std::uint16_t*>(used_ + kIndexAt))
      .store(to_little_endian(next_used_), std::memory_order_release);
}

bool Ring::wants_call() const {
  // The guest sets its flag, then looks at the index: one of us sees the other.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return (load(available_) & kNoInterrupt) == 0;
}

}  // namespace verbatim::ulp::disk::vhost
