#include "region/memory_file.h"

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/page.h"
#include "base/sparse_file.h"
#include "region/kernel_copies.h"
#include "region/page_map.h"
#include "region/pinned_pages.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace verbatim::region {
namespace {

/// So many pages move at once: who writes to them waits about a millisecond.
constexpr std::uint64_t kChunkBytes = 4 << 20;

std::byte* pointer_to(std::uint64_t address) {
  return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
}

/// By the bare system call: these are whole pages, and a sanitizer that guards bytes of them would
/// take `pread` for a fault.
bool read_all(int fd, std::uint64_t to, std::uint64_t length, std::uint64_t offset) {
  for (std::uint64_t done = 0; done < length;) {
    const long got = syscall(SYS_pread64, fd, pointer_to(to + done), length - done,
                             static_cast<off_t>(offset + done));
    if (got <= 0) return false;
    done += static_cast<std::uint64_t>(got);
  }
  return true;
}

}  // namespace

/// New memory of that size, writable and resident; none where there is no more.
class MemoryFile::Replacement {
 public:
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
  bool is_there() const {
    return place_ != MAP_FAILED && madvise(place_, length_, MADV_POPULATE_WRITE) == 0;
  }
  void not_for_children() const { madvise(place_, length_, MADV_DONTFORK); }
  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(place_); }
  void moved_away() { place_ = MAP_FAILED; }

 private:
  Replacement(void* place, std::uint64_t length) : place_(place), length_(length) {}
  void* place_;
  std::uint64_t length_;
};

namespace {

/// Private anonymous memory that a program reads and writes; not the stack, which grows.
bool is_adoptable(const Mapping& mapping) {
  const bool is_plain =
      mapping.name.empty() || mapping.name == "[heap]" || mapping.name.starts_with("[anon");
  return is_plain && mapping.readable && mapping.writable && !mapping.executable &&
         !mapping.shared && mapping.file.inode == 0;
}

/// What is left of the pages without the holes.
std::vector<PageRange> without(const PageRange& pages, std::span<const PageRange> holes) {
  std::vector<PageRange> left{pages};
  for (const PageRange& hole : holes) {
    std::vector<PageRange> next;
    for (const PageRange& part : left) {
      const PageRange before{part.begin, std::min(part.end, hole.begin)};
      const PageRange after{std::max(part.begin, hole.end), part.end};
      if (hole.end <= part.begin || hole.begin >= part.end) {
        next.push_back(part);
        continue;
      }
      if (before.begin < before.end) next.push_back(before);
      if (after.begin < after.end) next.push_back(after);
    }
    left = std::move(next);
  }
  return left;
}

void append(std::vector<PageRange>& list, const PageRange& pages) {
  if (!list.empty() && list.back().end == pages.begin) {
    list.back().end = pages.end;
  } else {
    list.push_back(pages);
  }
}

PageRange common(const PageRange& one, const PageRange& other) {
  return {std::max(one.begin, other.begin), std::min(one.end, other.end)};
}

/// The bytes of the file that a mapping of it shows.
PageRange shown_by(const Mapping& mapping) {
  return {mapping.offset, mapping.offset + mapping.range.length()};
}

/// The program has not moved it since it was adopted.
bool is_in_place(const Mapping& mapping) { return mapping.offset == mapping.range.begin; }

/// Calls `use` for the pages, a chunk at a time, until it answers false.
template <typename Use>
void for_each_chunk(const PageRange& pages, Use use) {
  for (std::uint64_t at = pages.begin; at < pages.end;) {
    const std::uint64_t end = std::min(pages.end, at / kChunkBytes * kChunkBytes + kChunkBytes);
    if (!use(PageRange{at, end})) return;
    at = end;
  }
}

}  // namespace

Result<std::unique_ptr<MemoryFile>> MemoryFile::create(const MemoryFileOptions& options) {
  auto fd = create_sparse_file("verbatim-memory", kBytes);
  if (!fd) return std::unexpected(fd.error());
  struct stat status{};
  if (fstat(fd->get(), &status) != 0) return refuse_errno("fstat");
  std::unique_ptr<MemoryFile> file(
      new MemoryFile(std::move(*fd), {.device = status.st_dev, .inode = status.st_ino},
                     WriteFreeze::open(options.own_threads, options.without_freeze)));
  file->process_id_ = getpid();
  return file;
}

MemoryFile::~MemoryFile() = default;

bool MemoryFile::is_ours() const { return getpid() == process_id_; }

auto MemoryFile::adopt(std::uint64_t address, std::uint64_t length) -> Adopted {
  const std::uint64_t page = page_bytes();
  const std::uint64_t last = kBytes - page;
  if (length == 0 || address > last || length > last - address || !is_ours()) return {};
  const PageRange pages{address / page * page, (address + length + page - 1) / page * page};
  const std::lock_guard guard(lock_);
  Adopted adopted;
  const auto mappings = mappings_of(pages);
  const auto shown = mappings_of(file_, pages.begin, pages.length());
  if (!mappings || !shown) {
    log(LogLevel::info, "memory stays where it is: {}",
        (mappings ? shown.error() : mappings.error()).text);
    return adopted;
  }
  std::vector<PageRange> taken;  // Bytes of the file that the program sees elsewhere.
  for (const Mapping& mapping : *shown) {
    if (!is_in_place(mapping)) taken.push_back(shown_by(mapping));
  }
  for (const Mapping& mapping : *mappings) {
    for (const PageRange& part : without(common(pages, mapping.range), taken)) {
      adopt_mapping(mapping, part, adopted);
    }
  }
  for (const PageRange& part : adopted.pages) users_.add(part);
  return adopted;
}

/// Of `mapping` the part `pages`.
void MemoryFile::adopt_mapping(const Mapping& mapping, const PageRange& pages, Adopted& out) {
  if (mapping.file == file_) {
    if (is_in_place(mapping)) append(out.pages, pages);
    return;
  }
  if (!is_adoptable(mapping)) return;
  // Pages of no memory yet cannot be frozen. Before the look for pins, which wants them, too.
  if (madvise(pointer_to(pages.begin), pages.length(), MADV_POPULATE_WRITE) != 0) return;
  std::vector<PageRange> holes;
  if (may_have_pinned_pages()) {
    auto pinned = pinned_pages(pages);
    if (!pinned) return;
    holes = std::move(*pinned);
  }
  for (const PageRange& own : pages_of_this_thread()) holes.push_back(own);
  for (const PageRange& part : without(pages, holes)) move_in(part, out);
}

void MemoryFile::move_in(const PageRange& pages, Adopted& out) {
  for_each_chunk(pages, [&](const PageRange& chunk) {
    if (!move_chunk_in(chunk, out.may_succeed_later)) return false;
    append(out.pages, chunk);
    return true;
  });
}

/// As long as it lives, nothing writes to memory of this process by process_vm_writev(2), if it
/// `holds`.
class MemoryFile::Alone {
 public:
  explicit Alone(const Writers& peers) : peers_(peers) {
    constexpr TimeNs kCopiesEnd = 5 * kMillisecond;
    holds_ = peers.begin() && KernelCopies::begin_move(monotonic_now() + kCopiesEnd);
  }
  ~Alone() {
    KernelCopies::end_move();
    peers_.end();
  }
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;
  bool holds() const { return holds_; }

 private:
  const Writers& peers_;
  bool holds_;
};

bool MemoryFile::move_chunk_in(const PageRange& pages, bool& may_succeed_later) {
  auto replacement = Replacement::of_file(pages.length(), fd(), pages.begin);
  if (replacement.is_there()) {
    replacement.not_for_children();
    const Alone alone(writers_);
    if (alone.holds() && replace(pages, replacement)) return true;
    may_succeed_later |= !alone.holds();
  }
  punch(pages);
  return false;
}

bool MemoryFile::replace(const PageRange& pages, Replacement& replacement) const {
  const auto replaced = freeze_.replace(pages, replacement.address());
  if (replaced) {
    replacement.moved_away();
  } else {
    log(LogLevel::info, "memory at {:#x} stays where it is: {}", pages.begin,
        replaced.error().text);
  }
  return replaced.has_value();
}

void MemoryFile::punch(const PageRange& part) const {
  fallocate(fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(part.begin),
            static_cast<off_t>(part.length()));
}

void MemoryFile::release(std::span<const PageRange> pages) {
  if (!is_ours()) return;
  const std::lock_guard guard(lock_);
  for (const PageRange& one : pages) {
    for (const PageRange& part : users_.remove(one)) move_back(part);
  }
}

/// Wherever the program has these bytes now: it may have unmapped some and moved others. What
/// cannot move back stays shared, and is adopted as it is the next time.
void MemoryFile::move_back(const PageRange& part) {
  const auto mappings = mappings_of(file_, part.begin, part.length());
  if (!mappings) return;
  if (!mappings->empty() && may_have_pinned_pages()) return;
  bool all_moved = true;
  for (const Mapping& mapping : *mappings) {
    const PageRange shown = common(part, shown_by(mapping));
    const PageRange pages{mapping.range.begin + (shown.begin - mapping.offset),
                          mapping.range.begin + (shown.end - mapping.offset)};
    const auto parts = without(pages, pages_of_this_thread());
    all_moved &= parts == std::vector{pages};
    for (const PageRange& one : parts) {
      for_each_chunk(one, [&](const PageRange& chunk) {
        const Alone alone(writers_);
        const bool moved = alone.holds() && move_chunk_back(chunk, mapping);
        all_moved &= moved;
        return moved;
      });
    }
  }
  if (all_moved) punch(part);
}

/// The program has changed its protection since: nobody writes there, and perhaps nobody can read.
bool MemoryFile::move_protected_back(const PageRange& pages, const Mapping& mapping) {
  auto replacement = Replacement::anonymous(pages.length());
  if (!replacement.is_there()) return false;
  const std::uint64_t offset = mapping.offset + (pages.begin - mapping.range.begin);
  if (!read_all(fd(), replacement.address(), pages.length(), offset)) return false;
  void* const bytes = pointer_to(replacement.address());
  if (mprotect(bytes, pages.length(), mapping.protection()) != 0 ||
      mremap(bytes, pages.length(), pages.length(), MREMAP_MAYMOVE | MREMAP_FIXED,
             pointer_to(pages.begin)) == MAP_FAILED) {
    return false;
  }
  replacement.moved_away();
  return true;
}

bool MemoryFile::move_chunk_back(const PageRange& pages, const Mapping& mapping) {
  if (mapping.protection() != (PROT_READ | PROT_WRITE)) return move_protected_back(pages, mapping);
  auto replacement = Replacement::anonymous(pages.length());
  return replacement.is_there() && replace(pages, replacement);
}

void MemoryFile::before_fork() {
  lock_.lock();
  if (auto all = mappings_of(file_, 0, kBytes)) copied_by_child_ = std::move(*all);
  int ends[2] = {-1, -1};
  if (copied_by_child_.empty() || pipe2(ends, O_CLOEXEC) != 0) return;
  child_done_[0].reset(ends[0]);
  child_done_[1].reset(ends[1]);
}

/// Waits until the child has its copy: later bytes are not the child's.
void MemoryFile::in_parent() {
  child_done_[1].reset();
  std::byte done{};
  while (child_done_[0] && read(child_done_[0].get(), &done, 1) < 0 && errno == EINTR) {
  }
  child_done_[0].reset();
  copied_by_child_.clear();
  lock_.unlock();
}

void MemoryFile::in_child() {
  for (const Mapping& mapping : copied_by_child_) {
    const PageRange& pages = mapping.range;
    void* const place = mmap(pointer_to(pages.begin), pages.length(), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (place == MAP_FAILED) continue;
    read_all(fd(), pages.begin, pages.length(), mapping.offset);
    mprotect(place, pages.length(), mapping.protection());
  }
  // The parent reads the end of the pipe.
  child_done_[0].reset();
  child_done_[1].reset();
  KernelCopies::forget();
  lock_.unlock();
}

}  // namespace verbatim::region
