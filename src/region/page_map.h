#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace verbatim::region {

/// Where peers find the bytes of a region. A byte that lies in the memory file has its address
/// there for its offset.
struct Backing {
  std::uint64_t address = 0;  // Of the region's first page, in the process that registered it.
  /// So many bytes from there on are in the file. Grows while the region is in use: read and
  /// written by `reachable` and `RegionTable::set_reachable` alone.
  std::uint64_t length = 0;
  std::uint64_t map = 0;  // Where the region's page map lies in the arena; 0: no page ever moves.
  friend bool operator==(const Backing&, const Backing&) = default;
};

inline std::uint64_t reachable(const Backing& backing) {
  return __atomic_load_n(&backing.length, __ATOMIC_ACQUIRE);
}

/// How a page of a region is reached: through the kernel while it is where the program allocated
/// it, and if it has to stay there; mapped, once it has moved into the memory file.
enum class PageState : std::uint8_t { apart, kept, moved };

/// 64 pages: a bit for each.
struct PageWord {
  std::atomic<std::uint64_t> moved{0};
  std::atomic<std::uint64_t> kept{0};
};
static_assert(sizeof(PageWord) == 16);

/// The states of a region's pages, in the arena, behind a counter. The owner of the memory writes
/// them, peers read them; a page that has moved stays so as long as the region lives. A view.
class PageMap {
 public:
  explicit PageMap(std::byte* place)
      : reaches_(*reinterpret_cast<std::atomic<std::uint32_t>*>(place)),
        words_(reinterpret_cast<PageWord*>(place + sizeof(PageWord))) {}
  /// Of zeroed memory that the map needs.
  static std::size_t bytes_for(std::uint64_t pages) {
    return static_cast<std::size_t>(1 + (pages + kBits - 1) / kBits) * sizeof(PageWord);
  }

  PageState state(std::uint64_t page) const {
    const PageWord& word = words_[page / kBits];
    const std::uint64_t bit = std::uint64_t{1} << (page % kBits);
    if ((word.moved.load(std::memory_order_acquire) & bit) != 0) return PageState::moved;
    return (word.kept.load(std::memory_order_relaxed) & bit) != 0 ? PageState::kept
                                                                  : PageState::apart;
  }
  /// Pages of one state.
  struct Run {
    PageState state{};
    std::uint64_t pages = 0;  // From the first on: 1 to `most`.
  };
  Run run(std::uint64_t first, std::uint64_t most) const {
    const PageState wanted = state(first);
    std::uint64_t page = first;
    while (page < first + most) {
      const PageWord& word = words_[page / kBits];
      const std::uint64_t moved = word.moved.load(std::memory_order_acquire);
      const std::uint64_t kept = word.kept.load(std::memory_order_relaxed) & ~moved;
      const std::uint64_t same = wanted == PageState::moved  ? moved
                                 : wanted == PageState::kept ? kept
                                                             : ~(moved | kept);
      const auto rest = kBits - page % kBits;
      const auto count = static_cast<std::uint64_t>(std::countr_one(same >> (page % kBits)));
      page += std::min(count, rest);
      if (count < rest) break;
    }
    // The state may have changed since it was read: then the page is one that was `apart`.
    return {wanted, std::clamp<std::uint64_t>(page - first, 1, most)};
  }
  /// `kept` or `moved`, by the owner.
  void set(PageState state, std::uint64_t first, std::uint64_t pages) {
    for (std::uint64_t page = first; page < first + pages;) {
      PageWord& word = words_[page / kBits];
      const std::uint64_t count = std::min(first + pages - page, kBits - page % kBits);
      const std::uint64_t bits = (~std::uint64_t{0} >> (kBits - count)) << (page % kBits);
      auto& part = state == PageState::moved ? word.moved : word.kept;
      part.fetch_or(bits, std::memory_order_release);
      page += count;
    }
  }
  /// Counts a peer's use of a page that is not in the file: how many there were before.
  std::uint32_t count_reach() { return reaches_.fetch_add(1, std::memory_order_relaxed); }

 private:
  static constexpr std::uint64_t kBits = 64;
  std::atomic<std::uint32_t>& reaches_;
  PageWord* words_;
};

}  // namespace verbatim::region
