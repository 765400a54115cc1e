#include "arena/arena.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>
#include <string_view>
#include <type_traits>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arena/target.h"
#include "arena/xrc_queue.h"
#include "base/assert.h"
#include "base/files/sparse_file.h"
#include "base/os/process_token.h"

namespace verbatim::arena {
namespace {

constexpr std::size_t kCacheLineBytes = 64;
constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kSmallChunkBytes = 64 << 10;
/// To clear more takes longer than to punch a hole.
constexpr std::size_t kClearedMax = 16 << 10;
/// Pages of free blocks that are kept: those of some hundred idle queues.
constexpr std::size_t kKeptMax = 4 << 20;
/// The mapping becomes accessible in steps: in a program that calls mlockall(), all accessible
/// memory becomes resident.
constexpr std::uint64_t kAccessStepBytes = 16 << 20;

static_assert(std::is_standard_layout_v<ArenaHeader>);
static_assert(std::is_trivially_destructible_v<ArenaHeader>);
static_assert(sizeof(QueuePairRecord) % kCacheLineBytes == 0);

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// Small blocks are rounded up to a cache line; from a page on to a power of two: untouched pages
/// cost nothing, and with few sizes freed blocks fit again.
constexpr std::size_t block_bytes_of(std::size_t bytes) {
  const std::size_t lines = round_up(std::max<std::size_t>(bytes, 1), kCacheLineBytes);
  return lines < kPageBytes ? lines : std::bit_ceil(lines);
}

std::unexpected<Error> refuse_errno(std::string_view what) {
  const int code = errno;
  return refuse(code, fmt::format("arena: {}: {}", what, std::strerror(code)));
}

/// The address space of this process's arenas: less where there is little (valgrind, ulimit -v).
/// Their files have kArenaBytes in any case.
std::uint64_t mapped_bytes() {
  static const std::uint64_t bytes = [] {
    constexpr std::uint64_t kLeast = kArenaBytes / 16;
    std::uint64_t tried = kArenaBytes;
    for (; tried > kLeast; tried /= 4) {
      void* const place =
          mmap(nullptr, tried, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (place == MAP_FAILED) continue;
      munmap(place, tried);
      break;
    }
    return tried;
  }();
  return bytes;
}

Result<std::byte*> map_file(int fd) {
  void* base = mmap(nullptr, mapped_bytes(), PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (base == MAP_FAILED) {
    return refuse_errno("mapping 4 GiB of address space (is ulimit -v set?)");
  }
  // A core dump would read every page of the mapping and so fill it with 64 GiB of zeroes.
  if (madvise(base, mapped_bytes(), MADV_DONTFORK) != 0 ||
      madvise(base, mapped_bytes(), MADV_DONTDUMP) != 0) {
    auto refused = refuse_errno("madvise");
    munmap(base, mapped_bytes());
    return refused;
  }
  return static_cast<std::byte*>(base);
}

Result<std::uint64_t> random_secret() {
  std::uint64_t secret = 0;
  ssize_t got = 0;
  do {
    got = getrandom(&secret, sizeof secret, 0);
  } while (got < 0 && errno == EINTR);
  if (got != sizeof secret) return refuse_errno("getrandom");
  return secret;
}

}  // namespace

Result<std::unique_ptr<Arena>> Arena::create() {
  const auto secret = random_secret();
  if (!secret) return std::unexpected(secret.error());
  std::unique_ptr<Arena> arena(new Arena);
  arena->process_id_ = getpid();
  // This may be a forked child with its own arena; its parent's token has another number.
  if (process_id_of(own_process_token()) != static_cast<std::uint32_t>(getpid())) {
    renew_own_process_token();
  }
  auto file = create_sparse_file("verbatim-arena", kArenaBytes);
  if (!file) return std::unexpected(file.error());
  arena->fd_ = std::move(*file);
  const auto base = map_file(arena->fd());
  if (!base) return std::unexpected(base.error());
  arena->base_ = *base;

  const std::lock_guard guard(arena->lock_);
  constexpr std::uint64_t kReserved =
      round_up(sizeof(ArenaHeader), kPageBytes) +
      round_up(kProgramQueuePairsMax * sizeof(QueuePairRecord), kPageBytes) +
      round_up(kRegionsMax * sizeof(region::RegionEntry), kPageBytes) +
      round_up(kTargetsMax * sizeof(DirectTarget), kPageBytes) +
      round_up(kProgramQueuePairsMax * sizeof(XrcQueue), kPageBytes);
  const auto reserved = arena->carve_pages(kReserved);
  if (!reserved) return std::unexpected(reserved.error());
  arena->lay_out(*secret);
  return arena;
}

/// Writes only the header: records and entries are zeroed memory, which means "unused".
void Arena::lay_out(std::uint64_t secret) {
  auto* const header = new (base_) ArenaHeader;
  header->process_token = own_process_token();
  header->pid_namespace = own_pid_namespace();
  header->base_address = reinterpret_cast<std::uint64_t>(base_);
  region::RegionTable::initialise(header->region_header, secret);
  std::uint64_t at = round_up(sizeof(ArenaHeader), kPageBytes);
  header->queue_pairs.value = at;
  at += round_up(kProgramQueuePairsMax * sizeof(QueuePairRecord), kPageBytes);
  header->regions.value = at;
  at += round_up(kRegionsMax * sizeof(region::RegionEntry), kPageBytes);
  header->targets.value = at;
  at += round_up(kTargetsMax * sizeof(DirectTarget), kPageBytes);
  header->xrc_queues.value = at;
}

std::uint64_t own_pid_namespace() {
  struct stat info{};
  return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

Arena::~Arena() {
  // In a forked child other memory may be mapped there.
  if (base_ != nullptr && is_ours()) munmap(base_, mapped_bytes());
}

bool Arena::is_ours() const { return getpid() == process_id_; }

void Arena::abandon_in_child() {
  VERBATIM_ASSERT(!is_ours());
  void* const zeroes =
      mmap(base_, mapped_bytes(), PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  // Kernels before 4.17 treat the address as a hint; the arena then stays unmapped.
  if (zeroes != MAP_FAILED && zeroes != base_) munmap(zeroes, mapped_bytes());
}

QueuePairRecord& Arena::queue_pair(std::uint32_t local_number) {
  VERBATIM_ASSERT(local_number < kProgramQueuePairsMax);
  return at(header().queue_pairs)[local_number];
}

DirectTarget& Arena::target(std::uint32_t local_number) {
  VERBATIM_ASSERT(local_number < kTargetsMax);
  return at(header().targets)[local_number];
}

XrcQueue& Arena::xrc_queue(SrqNumber number) {
  return at(header().xrc_queues)[raw(number) % kProgramQueuePairsMax];
}

Result<Offset<std::byte>> Arena::allocate(std::size_t bytes) {
  if (!is_ours()) return refuse(EPERM, "arena: it belongs to the process before fork");
  if (bytes > mapped_bytes()) {
    return refuse(ENOMEM, fmt::format("arena: {} bytes are more than it has", bytes));
  }
  const std::size_t block_bytes = block_bytes_of(bytes);
  const std::lock_guard guard(lock_);
  if (const auto kept = kept_.find(block_bytes); kept != kept_.end() && !kept->second.empty()) {
    const Kept block = kept->second.back();
    kept->second.pop_back();
    kept_bytes_ -= block.bytes;
    return Offset<std::byte>{block.at};
  }
  if (const auto freed = free_.find(block_bytes); freed != free_.end() && !freed->second.empty()) {
    const std::uint64_t found = freed->second.back();
    freed->second.pop_back();
    return Offset<std::byte>{found};
  }
  const auto carved = carve(block_bytes);
  if (!carved) return std::unexpected(carved.error());
  return Offset<std::byte>{*carved};
}

Result<std::uint64_t> Arena::carve(std::size_t block_bytes) {
  if (block_bytes >= kPageBytes) return carve_pages(block_bytes);
  if (small_end_ - small_next_ < block_bytes) {
    const auto chunk = carve_pages(kSmallChunkBytes);
    if (!chunk) return chunk;
    if (small_next_ != small_end_) free_[small_end_ - small_next_].push_back(small_next_);
    small_next_ = *chunk;
    small_end_ = *chunk + kSmallChunkBytes;
  }
  return std::exchange(small_next_, small_next_ + block_bytes);
}

Result<std::uint64_t> Arena::carve_pages(std::size_t block_bytes) {
  if (block_bytes > mapped_bytes() - next_) {
    return refuse(ENOMEM, fmt::format("arena: {} bytes asked for, {} left", block_bytes,
                                      mapped_bytes() - next_));
  }
  const std::uint64_t end = next_ + block_bytes;
  if (end > accessible_) {
    const std::uint64_t wanted = std::min(round_up(end, kAccessStepBytes), mapped_bytes());
    if (mprotect(base_ + accessible_, wanted - accessible_, PROT_READ | PROT_WRITE) != 0) {
      return refuse_errno("mprotect");
    }
    accessible_ = wanted;
  }
  return std::exchange(next_, end);
}

/// Counts the pages as kept if they may be.
bool Arena::may_keep(std::size_t bytes) {
  const std::lock_guard guard(lock_);
  if (kept_bytes_ + bytes > kKeptMax) return false;
  kept_bytes_ += bytes;
  return true;
}

void Arena::free(Offset<std::byte> block, std::size_t bytes, std::size_t written) {
  if (!is_ours()) return;
  const std::size_t block_bytes = block_bytes_of(bytes);
  VERBATIM_ASSERT(block && block.value % kCacheLineBytes == 0);
  // What this user has written, or one before it that has left less in the block than this bound.
  const std::size_t pages = std::min(kClearedMax, block_bytes);
  if (block_bytes >= kPageBytes && written <= kClearedMax && may_keep(pages)) {
    std::memset(at(block), 0, written);
    const std::lock_guard guard(lock_);
    kept_[block_bytes].push_back({block.value, pages});
    return;
  }
  const bool punched =
      block_bytes >= kPageBytes &&
      fallocate(fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(block.value),
                static_cast<off_t>(block_bytes)) == 0;
  if (!punched) std::memset(at(block), 0, block_bytes);
  const std::lock_guard guard(lock_);
  free_[block_bytes].push_back(block.value);
}

}  // namespace verbatim::arena
