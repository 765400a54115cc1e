#include "region/adoption/memory_file.h"

#include <algorithm>
#include <cerrno>
#include <limits>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/files/sparse_file.h"
#include "base/log.h"
#include "base/os/page.h"
#include "region/adoption/pinned_pages.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

namespace verbatim::region {
namespace {

/// For the file and for addresses, so that the kernel can use huge pages for both.
constexpr std::uint64_t kAlignment = 2 << 20;
/// Bytes moved at a time: a thread that writes to them waits about a millisecond.
constexpr std::uint64_t kChunkBytes = 4 << 20;

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

}  // namespace

/// New memory of a given size, writable and resident; empty if there is no more.
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

/// Returns true for private anonymous memory that a program reads and writes; not for the stack,
/// which grows.
bool is_adoptable(const Mapping& mapping) {
  const bool is_plain =
      mapping.name.empty() || mapping.name == "[heap]" || mapping.name.starts_with("[anon");
  return is_plain && mapping.readable && mapping.writable && !mapping.executable &&
         !mapping.shared && mapping.file.inode == 0;
}

/// Returns the pages without the holes.
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

void append(std::vector<Extent>& list, const Extent& extent) {
  if (!list.empty()) {
    Extent& last = list.back();
    if (last.address + last.length == extent.address &&
        last.offset + last.length == extent.offset) {
      last.length += extent.length;
      return;
    }
  }
  list.push_back(extent);
}

/// Calls `use` for the pages, a chunk at a time, until it returns false.
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

std::vector<Extent> MemoryFile::adopt(std::uint64_t address, std::uint64_t length) {
  const std::uint64_t page = page_bytes();
  const std::uint64_t last = std::numeric_limits<std::uint64_t>::max() - page;
  if (length == 0 || address > last || length > last - address || !is_ours()) return {};
  const PageRange pages{address / page * page, (address + length + page - 1) / page * page};
  const std::lock_guard guard(lock_);
  std::vector<Extent> extents;
  const auto mappings = mappings_of(pages);
  if (!mappings) {
    log(LogLevel::info, "memory stays where it is: {}", mappings.error().text);
    return extents;
  }
  for (const Mapping& mapping : *mappings) {
    adopt_mapping(
        mapping,
        {std::max(pages.begin, mapping.range.begin), std::min(pages.end, mapping.range.end)},
        extents);
  }
  for (const Extent& extent : extents) {
    users_.add({extent.offset, extent.offset + extent.length});
  }
  return extents;
}

/// Adopts `pages`, which are a part of `mapping`.
void MemoryFile::adopt_mapping(const Mapping& mapping, const PageRange& pages,
                               std::vector<Extent>& out) {
  if (mapping.file == file_) {  // Adopted earlier, and perhaps moved by mremap(2) since.
    append(out, {.address = pages.begin,
                 .length = pages.length(),
                 .offset = mapping.offset + (pages.begin - mapping.range.begin)});
    return;
  }
  if (!is_adoptable(mapping)) return;
  // Pages without memory cannot be frozen, nor examined for pins; so this comes before both.
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

/// Allocates unused space of the file, with the same offset from a huge page's boundary as the
/// address has.
std::uint64_t MemoryFile::take_space(const PageRange& pages) {
  const std::uint64_t begin = next_ + pages.begin % kAlignment;
  next_ = (begin + pages.length() + kAlignment - 1) / kAlignment * kAlignment;
  return begin;
}

void MemoryFile::move_in(const PageRange& pages, std::vector<Extent>& out) {
  if (kBytes - next_ < pages.length() + 2 * kAlignment) return;
  const std::uint64_t to = take_space(pages);
  for_each_chunk(pages, [&](const PageRange& chunk) {
    const std::uint64_t offset = to + (chunk.begin - pages.begin);
    if (!move_chunk_in(chunk, offset)) return false;
    append(out, {.address = chunk.begin, .length = chunk.length(), .offset = offset});
    return true;
  });
}

bool MemoryFile::move_chunk_in(const PageRange& pages, std::uint64_t offset) {
  auto replacement = Replacement::of_file(pages.length(), fd(), offset);
  if (replacement.is_there()) {
    replacement.not_for_children();
    if (replace(pages, replacement)) return true;
  }
  punch({offset, offset + pages.length()});
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

void MemoryFile::release(std::span<const Extent> extents) {
  if (!is_ours()) return;
  const std::lock_guard guard(lock_);
  for (const Extent& extent : extents) {
    for (const PageRange& part : users_.remove({extent.offset, extent.offset + extent.length})) {
      move_back(part);
    }
  }
}

/// Moves the bytes back wherever the program has them now: it may have unmapped or moved some. What
/// cannot be moved back stays shared; the next adoption uses it as it is.
void MemoryFile::move_back(const PageRange& part) {
  const auto mappings = mappings_of(file_, part.begin, part.length());
  if (!mappings) return;
  if (!mappings->empty() && may_have_pinned_pages()) return;
  bool all_moved = true;
  for (const Mapping& mapping : *mappings) {
    const std::uint64_t first = std::max(part.begin, mapping.offset);
    const std::uint64_t end = std::min(part.end, mapping.offset + mapping.range.length());
    const PageRange pages{mapping.range.begin + (first - mapping.offset),
                          mapping.range.begin + (end - mapping.offset)};
    const auto parts = without(pages, pages_of_this_thread());
    all_moved &= parts == std::vector{pages};
    for (const PageRange& one : parts) {
      for_each_chunk(one, [&](const PageRange& chunk) {
        const bool moved = move_chunk_back(chunk, mapping);
        all_moved &= moved;
        return moved;
      });
    }
  }
  if (all_moved) punch(part);
}

/// The program has changed the protection meanwhile: no thread can write to the pages, and perhaps
/// none can read them.
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

void MemoryFile::in_child() {
  for (const Mapping& mapping : copied_by_child_) {
    const PageRange& pages = mapping.range;
    void* const place = mmap(pointer_to(pages.begin), pages.length(), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (place == MAP_FAILED) continue;
    read_all(fd(), pages.begin, pages.length(), mapping.offset);
    mprotect(place, pages.length(), mapping.protection());
  }
  // The parent only reads the pipe.
  child_done_[0].reset();
  child_done_[1].reset();
  lock_.unlock();
}

}  // namespace verbatim::region
