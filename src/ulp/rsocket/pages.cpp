// Chunks of pages that streams share.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include <unistd.h>

#include "ulp/rsocket/memory.h"

namespace verbatim::rsocket {
namespace {

/// A chunk has as many places as there are in use, but not more.
constexpr std::size_t kMostPlaces = 32;

struct Chunk {
  ibv_pd* pd = nullptr;
  std::size_t bytes = 0;  // Of a place.
  Memory memory;
  std::vector<bool> used;

  bool is_unused() const { return std::ranges::count(used, true) == 0; }
};

/// The chunks of a process. A forked child cannot use its parent's.
struct Pool {
  const pid_t process = getpid();
  std::mutex mutex;
  std::vector<std::shared_ptr<Chunk>> chunks;
};

Pool& pool() {
  static std::atomic<Pool*> current = nullptr;
  Pool* found = current;
  while (found == nullptr || found->process != getpid()) {
    auto fresh = std::make_unique<Pool>();
    if (current.compare_exchange_strong(found, fresh.get())) return *fresh.release();
  }
  return *found;
}

class Place final : public Pages {
 public:
  Place(Pool& pool, std::shared_ptr<Chunk> chunk, std::size_t index)
      : pool_(pool), chunk_(std::move(chunk)), index_(index) {}
  Place(const Place&) = delete;
  ~Place() override {
    std::shared_ptr<Chunk> ended;  // Destroyed without the lock.
    const std::lock_guard lock(pool_.mutex);
    chunk_->used[index_] = false;
    if (!chunk_->is_unused()) return;
    // One that nobody uses is kept for the next stream.
    const auto is_spare = [this](const std::shared_ptr<Chunk>& it) {
      return it != chunk_ && it->pd == chunk_->pd && it->bytes == chunk_->bytes && it->is_unused();
    };
    if (std::ranges::none_of(pool_.chunks, is_spare)) return;
    std::erase(pool_.chunks, chunk_);
    ended = std::move(chunk_);
  }
  std::byte* data() const override { return chunk_->memory.data() + index_ * chunk_->bytes; }
  std::uint32_t lkey() const override { return chunk_->memory.lkey(); }

 private:
  Pool& pool_;
  std::shared_ptr<Chunk> chunk_;
  std::size_t index_;
};

}  // namespace

Outcome<std::shared_ptr<Pages>> Pages::take(ibv_pd* pd, std::size_t bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t whole = (bytes + page - 1) / page * page;
  Pool& pool = rsocket::pool();
  const std::lock_guard lock(pool.mutex);
  std::size_t places = 0;
  for (const auto& chunk : pool.chunks) {
    if (chunk->pd != pd || chunk->bytes != whole) continue;
    const auto free = std::ranges::find(chunk->used, false);
    if (free != chunk->used.end()) {
      *free = true;
      const auto index = static_cast<std::size_t>(free - chunk->used.begin());
      return std::make_shared<Place>(pool, chunk, index);
    }
    places += chunk->used.size();
  }
  places = std::clamp<std::size_t>(places, 1, kMostPlaces);
  auto memory = Memory::make(pd, places * whole, 0);
  if (!memory) return fail(memory.error());
  auto chunk = std::make_shared<Chunk>(
      Chunk{.pd = pd, .bytes = whole, .memory = std::move(*memory), .used = {}});
  chunk->used.assign(places, false);
  chunk->used[0] = true;
  pool.chunks.push_back(chunk);
  return std::make_shared<Place>(pool, std::move(chunk), 0);
}

}  // namespace verbatim::rsocket
