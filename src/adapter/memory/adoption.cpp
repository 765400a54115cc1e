#include "adapter/memory/adoption.h"

#include <algorithm>
#include <atomic>

#include "base/os/page.h"

namespace verbatim::adapter {

using region::Backing;
using region::PageRange;

namespace {

constexpr TimeNs kPeersEndCopies = 20 * kMillisecond;
/// To move a page there and back costs about this much, for each region and each
/// page.
constexpr std::uint64_t kMoveNs = 100'000;
constexpr std::uint64_t kPageNs = 10'000;
/// Peers pay so much more before they ask again for memory that could not move.
constexpr std::uint64_t kPatience = 16;
/// Moved in one step, at least, and in how many steps at most.
constexpr std::uint64_t kStepBytes = 4 << 20;
constexpr std::uint64_t kStepsMax = 64;

/// The pages that the region covers from end to end.
PageRange whole_pages(const region::Region& region) {
  const std::uint64_t page = page_bytes();
  const std::uint64_t begin = region.address + (page - 1) - (region.address + page - 1) % page;
  const std::uint64_t last = region.address + region.length;
  return {begin, std::max(begin, last - last % page)};
}

}  // namespace

Adoption::Adoption(region::MemoryFile& memory, region::RegionTable& table, std::atomic<bool>& moves,
                   std::function<bool(TimeNs)> await_peers)
    : memory_(memory), table_(table) {
  memory_.set_writers({.begin =
                           [&moves, await = std::move(await_peers)] {
                             moves.store(true, std::memory_order_seq_cst);
                             return await(monotonic_now() + kPeersEndCopies);
                           },
                       .end = [&moves] { moves.store(false, std::memory_order_seq_cst); }});
}

Adoption::~Adoption() { memory_.set_writers({}); }

Backing Adoption::backing_of(const region::Region& region) {
  constexpr std::uint32_t kNeverMoves = region::kOnDemand | region::kImported | region::kNull;
  const PageRange pages = whole_pages(region);
  if ((region.access & kNeverMoves) != 0) return {};
  if (memory_.has_given(region.address, region.length)) {
    return {.address = region.address, .length = region.length};
  }
  if (pages.length() == 0) return {};
  return {.address = pages.begin, .price = kMoveNs + pages.length() / page_bytes() * kPageNs};
}

void Adoption::want(MemoryKey key) {
  const std::lock_guard guard(wanted_lock_);
  if (std::ranges::find(wanted_, key) == wanted_.end()) wanted_.push_back(key);
}

MemoryKey Adoption::first_wanted() {
  const std::lock_guard guard(wanted_lock_);
  return wanted_.empty() ? MemoryKey{} : wanted_.front();
}

void Adoption::end_wish(MemoryKey key) {
  const std::lock_guard guard(wanted_lock_);
  std::erase(wanted_, key);
}

bool Adoption::step() {
  const std::unique_lock guard(lock_, std::try_to_lock);
  if (!guard) return false;
  const MemoryKey key = first_wanted();
  if (raw(key) == 0) return false;
  if (!move_more(key)) end_wish(key);
  return raw(first_wanted()) != 0;
}

/// Returns true if more of this region can move.
bool Adoption::move_more(MemoryKey key) {
  const auto region = table_.find_region(key);
  if (!region) return false;  // Deregistered meanwhile.
  const Backing& backing = region->backing;
  const PageRange pages = whole_pages(*region);
  const std::uint64_t done = backing.length;
  if (backing.price == Backing::kNever) return false;
  const std::uint64_t unit =
      std::max(kStepBytes, pages.length() / kStepsMax / kStepBytes * kStepBytes);
  const PageRange part{pages.begin + done, std::min(pages.end, pages.begin + done + unit)};
  PageRange& moved = moved_[key];  // Allocates before memory moves.
  // On-demand memory may be unmapped at any time, so it stays as it is.
  const bool is_plain = !table_.any_overlaps(part.begin, part.length(), region::kOnDemand);
  const std::uint64_t adopted = is_plain ? memory_.adopt(part, pages.end - part.end) : 0;
  if (adopted > 0 && !table_.set_moved(key, backing.address, done + adopted)) {
    memory_.release({part.begin, part.begin + adopted});
    return false;
  }
  if (adopted > 0) moved = {pages.begin, part.begin + adopted};
  if (adopted < part.length()) {
    table_.set_price(key, std::min(backing.price, Backing::kNever / kPatience) * kPatience);
    return false;
  }
  const bool is_all = part.end == pages.end;
  table_.set_price(key, is_all ? Backing::kNever : backing.price);
  return !is_all;
}

void Adoption::forget(MemoryKey key) {
  const std::lock_guard guard(lock_);
  release(key);
}

/// Requires lock_.
void Adoption::release(MemoryKey key) {
  end_wish(key);
  const auto found = moved_.find(key);
  if (found == moved_.end()) return;
  memory_.release(found->second);
  moved_.erase(found);
}

}  // namespace verbatim::adapter
