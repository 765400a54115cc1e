#include "adapter/adoption.h"

#include <algorithm>
#include <utility>

#include "base/page.h"
#include "region/page_map.h"
#include "region/pinned_pages.h"
#include "region/write_freeze.h"

namespace verbatim::adapter {

using region::PageMap;
using region::PageRange;
using region::PageState;

namespace {

/// A peer's copy takes a tenth of a millisecond or so; on a busy machine its thread may wait for a
/// processor in the middle, and it may have been stopped there.
constexpr TimeNs kPeersEndCopies = 20 * kMillisecond;
constexpr TimeNs kFirstPause = 20 * kMillisecond;
constexpr TimeNs kLastPause = kSecond;

PageRange pages_of(const region::Region& region) {
  return {region.address / page_bytes() * page_bytes(),
          (region.address + region.length + page_bytes() - 1) / page_bytes() * page_bytes()};
}

PageRange common(const PageRange& one, const PageRange& other) {
  return {std::max(one.begin, other.begin), std::min(one.end, other.end)};
}

}  // namespace

/// The memory of one region.
struct Adoption::Memory {
  PageRange pages;
  region::Backing backing;  // Its length: what the table has been told.
  std::size_t map_bytes = 0;
  std::mutex lock;  // Guards what follows.
  bool has_left = false;
  MemoryKey key{};  // None: not in the table yet.
  std::uint64_t moves = 0;
  std::vector<PageRange> moved;  // In no order.
};

Adoption::Adoption(region::MemoryFile& memory, Arena& arena, region::RegionTable& regions,
                   std::function<bool(TimeNs)> await_copies)
    : memory_(memory),
      arena_(arena),
      regions_(regions),
      await_copies_(std::move(await_copies)),
      pause_(kFirstPause) {
  memory_.set_writers({.begin = [this] { return begin_move(); }, .end = [this] { end_move(); }});
}

Adoption::~Adoption() { memory_.set_writers({}); }

bool Adoption::begin_move() {
  arena_.header().moves.store(true, std::memory_order_seq_cst);
  const TimeNs now = monotonic_now();
  if (await_copies_(now + kPeersEndCopies)) {
    pause_ = kFirstPause;
    return true;
  }
  not_before_.store(monotonic_now() + pause_, std::memory_order_relaxed);
  pause_ = std::min(2 * pause_, kLastPause);
  return false;
}

void Adoption::end_move() { arena_.header().moves.store(false, std::memory_order_seq_cst); }

Result<void> Adoption::prepare(region::Region& region) {
  constexpr std::uint32_t kNeverMoves = region::kOnDemand | region::kElsewhere | region::kNull;
  region.backing = {};
  if ((region.access & kNeverMoves) != 0 || region.length == 0) return {};
  const auto memory = std::make_shared<Memory>();
  memory->pages = pages_of(region);
  memory->map_bytes = PageMap::bytes_for(memory->pages.length() / page_bytes());
  const auto map = arena_.allocate(memory->map_bytes);
  if (!map) return std::unexpected(map.error());
  memory->backing = {.address = memory->pages.begin, .length = 0, .map = map->value};
  // What this thread runs on stays where it is: the kernel writes there as well.
  for (const PageRange& own : region::pages_of_this_thread()) {
    const PageRange part = common(memory->pages, own);
    if (part.begin >= part.end) continue;
    PageMap(arena_.at(*map))
        .set(PageState::kept, (part.begin - memory->pages.begin) / page_bytes(),
             part.length() / page_bytes());
  }
  if (!memory_.moves_at_any_time()) move(*memory, memory->pages);
  region.backing = memory->backing;
  const std::lock_guard guard(lock_);
  all_.emplace(map->value, memory);
  return {};
}

std::shared_ptr<Adoption::Memory> Adoption::find(std::uint64_t map) {
  const std::lock_guard guard(lock_);
  const auto found = all_.find(map);
  return found == all_.end() ? nullptr : found->second;
}

void Adoption::enter(MemoryKey key, const region::Backing& backing) {
  const auto memory = find(backing.map);
  if (memory == nullptr) return;
  const std::lock_guard guard(memory->lock);
  memory->key = key;
  publish(*memory);
}

void Adoption::carry_over(const region::Backing& from, const region::Backing& to) {
  const auto before = find(from.map);
  const auto after = find(to.map);
  if (before == nullptr || after == nullptr) return;
  const std::scoped_lock guard(before->lock, after->lock);
  for (const PageRange& part : before->moved) {
    const PageRange both = common(part, after->pages);
    if (both.begin < both.end) move(*after, both);
  }
}

void Adoption::leave(const region::Backing& backing) {
  std::shared_ptr<Memory> memory;
  {
    const std::lock_guard guard(lock_);
    const auto found = all_.find(backing.map);
    if (found == all_.end()) return;
    memory = std::move(found->second);
    all_.erase(found);
  }
  const std::lock_guard guard(memory->lock);
  memory->has_left = true;
  if (!memory->moved.empty()) memory_.release(memory->moved);
  arena_.free({backing.map}, memory->map_bytes);
}

void Adoption::move(const Reach& wanted) {
  if (monotonic_now() < not_before_.load(std::memory_order_relaxed)) return;
  const auto memory = find(wanted.map);
  if (memory == nullptr) return;
  const std::lock_guard guard(memory->lock);
  if (memory->has_left || wanted.address < memory->pages.begin) return;
  const std::uint64_t first = wanted.address / page_bytes() * page_bytes();
  if (first >= memory->pages.end) return;
  const std::uint64_t length =
      std::min(wanted.length + wanted.address % page_bytes(), memory->pages.end - first);
  const std::uint64_t whole = (length + page_bytes() - 1) / page_bytes() * page_bytes();
  move(*memory, common(unit_of(*memory, {first, first + whole}), memory->pages));
}

/// Where no system call suffers, neighbours move along, more and more of them. Else only what peers
/// have used does: the program may be reading a file into the rest. But not into too many pieces.
/// Where the kernel may be writing to pages by itself (direct I/O that begins after the look for
/// pinned pages), nothing moves that is not the peer's at this moment.
PageRange Adoption::unit_of(const Memory& memory, const PageRange& pages) const {
  constexpr std::uint64_t kSmallest = 64 << 10;
  constexpr std::uint64_t kDoublings = 5;
  constexpr std::uint64_t kMovesOfOneSize = 8;
  constexpr std::size_t kPiecesMax = 4096;
  if (region::may_have_pinned_pages()) return pages;
  if (!memory_.spares_system_calls() && memory.moved.size() < kPiecesMax) return pages;
  const std::uint64_t unit = kSmallest << std::min(memory.moves / kMovesOfOneSize, kDoublings);
  return {pages.begin / unit * unit, (pages.end + unit - 1) / unit * unit};
}

/// Of the pages, those that are where the program allocated them. Under the memory's lock.
void Adoption::move(Memory& memory, const PageRange& pages) {
  const PageMap map(arena_.at(Offset<std::byte>{memory.backing.map}));
  for (std::uint64_t at = pages.begin; at < pages.end;) {
    const auto run =
        map.run((at - memory.pages.begin) / page_bytes(), (pages.end - at) / page_bytes());
    const PageRange part{at, at + run.pages * page_bytes()};
    if (run.state == PageState::apart) adopt(memory, part);
    at = part.end;
  }
  publish(memory);
}

void Adoption::adopt(Memory& memory, const PageRange& pages) {
  PageMap map(arena_.at(Offset<std::byte>{memory.backing.map}));
  const auto set = [&](PageState state, const PageRange& part) {
    map.set(state, (part.begin - memory.pages.begin) / page_bytes(), part.length() / page_bytes());
  };
  const auto adopted = memory_.adopt(pages.begin, pages.length());
  ++memory.moves;
  for (const PageRange& part : adopted.pages) {
    set(PageState::moved, part);
    auto& moved = memory.moved;
    const auto before = std::ranges::find(moved, part.begin, &PageRange::end);
    if (before == moved.end()) {
      moved.push_back(part);
    } else {
      before->end = part.end;
    }
  }
  if (!adopted.may_succeed_later) set(PageState::kept, pages);  // What has not moved.
}

/// Tells the table, and so peers, how much of the region lies in the file from its first page on.
void Adoption::publish(Memory& memory) {
  const PageMap map(arena_.at(Offset<std::byte>{memory.backing.map}));
  const std::uint64_t pages = memory.pages.length() / page_bytes();
  std::uint64_t there = memory.backing.length / page_bytes();
  while (there < pages) {
    const auto run = map.run(there, pages - there);
    if (run.state != PageState::moved) break;
    there += run.pages;
  }
  memory.backing.length = there * page_bytes();
  if (raw(memory.key) == 0) return;
  regions_.set_reachable(memory.key, memory.backing.map, memory.backing.length);
}

}  // namespace verbatim::adapter
