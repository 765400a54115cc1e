#include "region/adoption/memory_file.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/files/sparse_file.h"
#include "base/log.h"
#include "base/os/page.h"
#include "base/os/peer_copies.h"
#include "base/time.h"
#include "region/adoption/movable.h"
#include "region/adoption/page_mover.h"
#include "region/adoption/pins.h"
#include "region/adoption/threads.h"
#include "region/kernel_copies.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace verbatim::region {
namespace {

/// Bytes moved at a time: a thread that accesses them waits some tenths of a millisecond, and this
/// much memory is there twice.
constexpr std::uint64_t kChunkBytes = 1 << 20;
constexpr TimeNs kWritersEnd = 20 * kMillisecond;
/// Then memory moves back though a writer has not ended: one that was stopped looks its page up
/// anew.
constexpr TimeNs kTriesToGiveBack = kSecond;

std::byte* pointer_to(std::uint64_t address) {
  return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
}

/// With a bare system call: the ranges are whole pages, and a sanitizer that protects some of their
/// bytes would report `pread` as an error.
bool read_all(int fd, std::uint64_t to, std::uint64_t length, std::uint64_t offset) {
  for (std::uint64_t done = 0; done < length;) {
    const long got = syscall(SYS_pread64, fd, pointer_to(to + done), length - done,
                             static_cast<off_t>(offset + done));
    if (got <= 0) return false;
    done += static_cast<std::uint64_t>(got);
  }
  return true;
}

PageRange common(const PageRange& one, const PageRange& other) {
  return {std::max(one.begin, other.begin), std::min(one.end, other.end)};
}

/// Calls `use` for the pages, a chunk at a time, until it returns false. Returns where it ended.
template <typename Use>
std::uint64_t for_each_chunk(const PageRange& pages, Use use) {
  std::uint64_t at = pages.begin;
  while (at < pages.end) {
    const std::uint64_t end = std::min(pages.end, at / kChunkBytes * kChunkBytes + kChunkBytes);
    if (!use(PageRange{at, end})) break;
    at = end;
  }
  return at;
}

}  // namespace

/// Memory that takes the place of other memory; unmapped unless it has.
class MemoryFile::Replacement {
 public:
  Replacement(void* place, std::uint64_t length) : place_(place), length_(length) {}
  static Replacement of_file(std::uint64_t length, int fd, std::uint64_t offset) {
    return {
        mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset)),
        length};
  }
  static Replacement anonymous(std::uint64_t length) {
    return {mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
            length};
  }
  Replacement(Replacement&&) = delete;
  Replacement& operator=(Replacement&&) = delete;
  ~Replacement() {
    if (place_ != MAP_FAILED) munmap(place_, length_);
  }
  /// Makes it writable and resident; returns false if there is no memory.
  bool prepare() const {
    return place_ != MAP_FAILED && mprotect(place_, length_, PROT_READ | PROT_WRITE) == 0 &&
           madvise(place_, length_, MADV_POPULATE_WRITE) == 0;
  }
  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(place_); }
  void moved_away() { place_ = MAP_FAILED; }

 private:
  void* place_;
  std::uint64_t length_;
};

/// While it exists, nothing writes to the program's memory by its addresses, if it `holds`.
class MemoryFile::Alone {
 public:
  explicit Alone(const Writers& writers) : writers_(writers) {
    holds_ = writers.begin() && KernelCopies::begin_move(monotonic_now() + kWritersEnd);
  }
  ~Alone() {
    KernelCopies::end_move();
    writers_.end();
  }
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;
  bool holds() const { return holds_; }

 private:
  const Writers& writers_;
  bool holds_;
};

Result<std::unique_ptr<MemoryFile>> MemoryFile::create() {
  auto fd = create_sparse_file("verbatim-memory", kBytes);
  if (!fd) return std::unexpected(fd.error());
  struct stat status{};
  if (fstat(fd->get(), &status) != 0) return refuse_errno("fstat");
  std::unique_ptr<MemoryFile> file(
      new MemoryFile(std::move(*fd), {.device = status.st_dev, .inode = status.st_ino}));
  file->process_id_ = getpid();
  let_peers_copy();  // Also for `run_alone`.
  return file;
}

MemoryFile::~MemoryFile() = default;

bool MemoryFile::is_ours() const { return getpid() == process_id_; }

std::uint64_t MemoryFile::adopt(const PageRange& pages, std::uint64_t to_come) {
  if (!is_ours() || pages.begin >= pages.end || pages.end > kBytes) return 0;
  const std::lock_guard guard(lock_);
  const auto mappings = details_of(pages);
  if (!mappings || may_have_pinned_pages()) return 0;
  std::uint64_t at = pages.begin;
  for (const Mapping& mapping : *mappings) {
    const PageRange part{at, std::min(pages.end, mapping.range.end)};
    if (mapping.range.begin > at) break;  // Nothing is mapped before it.
    if (mapping.file == file_) {
      const bool is_in_place = mapping.offset == mapping.range.begin;
      if (!is_in_place) break;
      at = part.end;
    } else {
      at = is_movable(mapping, part) ? move_in(part, pages.end - at + to_come) : at;
      if (at < part.end) break;
    }
  }
  if (at > pages.begin) users_.add({pages.begin, at});
  return at - pages.begin;
}

/// Returns where it ended. `room`: bytes that may be moved from there on, later ones included.
std::uint64_t MemoryFile::move_in(const PageRange& pages, std::uint64_t room) {
  const auto next = parked_.upper_bound(pages.begin);
  const bool is_taken = (next != parked_.end() && next->first < pages.end) ||
                        (next != parked_.begin() && std::prev(next)->second.end > pages.begin);
  if (is_taken) return pages.begin;  // The program sees these bytes of the file elsewhere.
  const auto reserve = [](std::uint64_t at, std::uint64_t length, int flags) {
    return mmap(pointer_to(at), length, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
  };
  // Behind the last one, if that is free: then both become one mapping.
  void* place = MAP_FAILED;
  if (next_parked_ != 0) place = reserve(next_parked_, pages.length(), MAP_FIXED_NOREPLACE);
  if (place == MAP_FAILED) {
    place = reserve(0, room, 0);
    if (place == MAP_FAILED) return pages.begin;
    munmap(static_cast<std::byte*>(place) + pages.length(), room - pages.length());
  }
  const auto first = reinterpret_cast<std::uint64_t>(place);
  const std::uint64_t end = for_each_chunk(pages, [&](const PageRange& chunk) {
    return move_chunk_in(chunk, first + (chunk.begin - pages.begin));
  });
  next_parked_ = first + (end - pages.begin);
  if (end < pages.end) munmap(pointer_to(next_parked_), pages.end - end);
  return end;
}

bool MemoryFile::move_chunk_in(const PageRange& pages, std::uint64_t parked) {
  auto replacement = Replacement::of_file(pages.length(), fd(), pages.begin);
  Result<void> moved = refuse(ENOMEM, "there is no memory");
  if (replacement.prepare()) {
    const Alone alone(writers_);
    moved = alone.holds() ? move_pages_in(pages, replacement.address(), parked)
                          : refuse(EBUSY, "peers copy");
  }
  if (!moved) {
    log(LogLevel::info, "memory at {:#x} stays where it is: {}", pages.begin, moved.error().text);
    punch(pages);
    return false;
  }
  replacement.moved_away();
  // The bytes have moved; what is left joins what has been parked before.
  madvise(pointer_to(parked), pages.length(), MADV_DONTNEED);
  mprotect(pointer_to(parked), pages.length(), PROT_NONE);
  if (const auto before = parked_.lower_bound(pages.begin); before != parked_.begin()) {
    Parked& last = std::prev(before)->second;
    const std::uint64_t begin = std::prev(before)->first;
    if (last.end == pages.begin && last.at + (last.end - begin) == parked) {
      last.end = pages.end;
      return true;
    }
  }
  parked_.emplace(pages.begin, Parked{pages.end, parked});
  return true;
}

void MemoryFile::punch(const PageRange& part) const {
  fallocate(fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(part.begin),
            static_cast<off_t>(part.length()));
}

void MemoryFile::release(const PageRange& pages) {
  if (!is_ours() || pages.begin >= pages.end) return;
  const std::lock_guard guard(lock_);
  for (const PageRange& part : users_.remove(pages)) move_back(part);
}

/// Moves the bytes back wherever the program has them now: it may have unmapped or moved some.
/// If threads cannot be stopped by now, the rest stays shared.
void MemoryFile::move_back(const PageRange& part) {
  const auto mappings = mappings_of(file_, part.begin, part.length());
  if (!mappings) return;
  for (const Mapping& mapping : *mappings) {
    const PageRange shown = common(part, {mapping.offset, mapping.offset + mapping.range.length()});
    const PageRange pages{mapping.range.begin + (shown.begin - mapping.offset),
                          mapping.range.begin + (shown.end - mapping.offset)};
    for (PageRange rest = pages; rest.begin < rest.end;) {
      // Parked mappings are not always neighbours.
      const std::uint64_t offset = mapping.offset + (rest.begin - mapping.range.begin);
      const PageRange piece{rest.begin, rest.begin + std::min(rest.length(), parked_bytes(offset))};
      rest.begin = for_each_chunk(
          piece, [&](const PageRange& chunk) { return move_chunk_back(chunk, mapping); });
      if (rest.begin < piece.end) return;
    }
  }
  punch(part);
  drop_parked(part);
}

bool MemoryFile::move_chunk_back(const PageRange& pages, const Mapping& mapping) {
  const std::uint64_t offset = mapping.offset + (pages.begin - mapping.range.begin);
  const PageRange file_part{offset, offset + pages.length()};
  if (overlap(pages, stack_of_this_thread())) return false;  // It would wait for itself.
  auto replacement = take_parked(file_part);
  if (!replacement.prepare()) return false;
  const bool is_written = mapping.protection() == (PROT_READ | PROT_WRITE);
  const auto moves = [&]() -> Result<void> {
    if (is_written) return move_pages_back(pages, replacement.address());
    if (fill(replacement, pages, mapping)) return {};
    return refuse(ENOMEM, "memory cannot be exchanged");
  };
  Result<void> moved = refuse(EBUSY, "peers copy");
  for (const TimeNs end = monotonic_now() + kTriesToGiveBack; !moved;) {
    const bool is_last = monotonic_now() >= end;
    {
      const Alone alone(writers_);
      if (alone.holds() || is_last) moved = moves();
    }
    if (is_last || moved || moved.error().code != EBUSY) break;
    const timespec pause{.tv_sec = 0, .tv_nsec = static_cast<long>(kMillisecond)};
    nanosleep(&pause, nullptr);  // Writers that wait for the end of the move go on.
  }
  if (!moved) return false;
  replacement.moved_away();
  punch(file_part);
  return true;
}

/// The program has changed the protection meanwhile: no thread can write to the pages, and perhaps
/// none can read them.
bool MemoryFile::fill(const Replacement& replacement, const PageRange& pages,
                      const Mapping& mapping) const {
  const std::uint64_t offset = mapping.offset + (pages.begin - mapping.range.begin);
  if (!read_all(fd(), replacement.address(), pages.length(), offset)) return false;
  void* const bytes = pointer_to(replacement.address());
  return mprotect(bytes, pages.length(), mapping.protection()) == 0 &&
         mremap(bytes, pages.length(), pages.length(), MREMAP_MAYMOVE | MREMAP_FIXED,
                pointer_to(pages.begin)) != MAP_FAILED;
}

/// Bytes of the file from there on whose mapping is parked in one piece, or not at all.
std::uint64_t MemoryFile::parked_bytes(std::uint64_t offset) const {
  const auto after = parked_.upper_bound(offset);
  if (after != parked_.begin() && std::prev(after)->second.end > offset) {
    return std::prev(after)->second.end - offset;
  }
  return (after == parked_.end() ? kBytes : after->first) - offset;
}

/// The mapping from which these bytes of the file were adopted, or a new one.
auto MemoryFile::take_parked(const PageRange& file_part) -> Replacement {
  const auto after = parked_.upper_bound(file_part.begin);
  if (after == parked_.begin() || std::prev(after)->second.end < file_part.end) {
    return Replacement::anonymous(file_part.length());
  }
  const auto [begin, parked] = *std::prev(after);
  parked_.erase(std::prev(after));
  if (begin < file_part.begin) parked_.emplace(begin, Parked{file_part.begin, parked.at});
  if (file_part.end < parked.end) {
    parked_.emplace(file_part.end, Parked{parked.end, parked.at + (file_part.end - begin)});
  }
  return {pointer_to(parked.at + (file_part.begin - begin)), file_part.length()};
}

/// The program has unmapped the pages that were adopted from there.
void MemoryFile::drop_parked(const PageRange& part) {
  for (auto one = parked_.begin(); one != parked_.end();) {
    const auto [begin, parked] = *one;
    const PageRange gone = common(part, {begin, parked.end});
    if (gone.begin >= gone.end) {
      ++one;
      continue;
    }
    {
      const Replacement unmapped = take_parked(gone);
    }
    one = parked_.begin();
  }
}

void MemoryFile::before_fork() {
  lock_.lock();
  if (users_.empty() && parked_.empty()) return;
  if (auto all = mappings_of(file_, 0, kBytes)) copied_by_child_ = std::move(*all);
  std::erase_if(copied_by_child_, [this](const Mapping& it) {
    const auto after = given_.upper_bound(it.range.begin);
    return after != given_.begin() && it.range.begin < std::prev(after)->second;
  });
  int ends[2] = {-1, -1};
  if (copied_by_child_.empty() || pipe2(ends, O_CLOEXEC) != 0) return;
  child_done_[0].reset(ends[0]);
  child_done_[1].reset(ends[1]);
}

/// Waits until the child has its copy: later bytes must not get into it.
void MemoryFile::in_parent() {
  child_done_[1].reset();
  std::byte done{};
  while (child_done_[0] && read(child_done_[0].get(), &done, 1) < 0 && errno == EINTR) {
  }
  child_done_[0].reset();
  copied_by_child_.clear();
  lock_.unlock();
}

/// Whatever the C library or other handlers touch has its bytes at each moment, also if it is in
/// memory that was adopted: so a copy takes its place in one step.
void MemoryFile::in_child() {
  for (const Mapping& mapping : copied_by_child_) {
    const PageRange& pages = mapping.range;
    void* const copy =
        mmap(nullptr, pages.length(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED) continue;
    read_all(fd(), reinterpret_cast<std::uint64_t>(copy), pages.length(), mapping.offset);
    mprotect(copy, pages.length(), mapping.protection());
    mremap(copy, pages.length(), pages.length(), MREMAP_MAYMOVE | MREMAP_FIXED,
           pointer_to(pages.begin));
  }
  // The parent only reads the pipe.
  child_done_[0].reset();
  child_done_[1].reset();
  KernelCopies::forget();
  lock_.unlock();
}

}  // namespace verbatim::region
