#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "region/adoption/mappings.h"
#include "region/adoption/write_freeze.h"
#include "region/extent.h"
#include "region/use_counts.h"

namespace verbatim::region {

struct MemoryFileOptions {
  unsigned own_threads = 0;     // Our threads, which do not write to adopted memory.
  bool without_freeze = false;  // As if userfaultfd(2) were refused: see WriteFreeze.
};

/// Memory adoption (docs/design.md, 4). A program registers memory that it has allocated in any
/// way; its pages are moved, in place, into one sparse memfd. When the last user is gone they are
/// moved back, because allocators rely on fresh pages being zero. The program does not notice:
/// addresses and bytes stay the same at every moment, even if threads write meanwhile.
///
/// Whole pages are adopted, also those that the range only overlaps, if they are private anonymous
/// writable memory: heap and mmap. Not adopted, and so missing in the result: the main thread's
/// stack, file mappings, shared memory, huge pages of hugetlbfs, the memory that this thread itself
/// runs on, pages that may be pinned, and everything if threads cannot be stopped.
///
/// A forked child does not share adopted memory, else it would write to the parent's: it gets a
/// copy, made between `before_fork` and `in_parent`. Thread-safe.
class MemoryFile {
 public:
  static constexpr std::uint64_t kBytes = std::uint64_t{1} << 62;

  /// Fails with ENOMEM, EMFILE, EFBIG and other errors of the kernel, with a text.
  static Result<std::unique_ptr<MemoryFile>> create(const MemoryFileOptions& options);
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile();

  int fd() const { return fd_.get(); }
  /// Adopts [address, address + length). Returns the parts that are in the file now, in order, as
  /// whole pages; each has one more user. Bytes of the file are never reused for other memory.
  std::vector<Extent> adopt(std::uint64_t address, std::uint64_t length);
  /// Removes a user from a result of `adopt`. Requires that no peer accesses the bytes any more.
  void release(std::span<const Extent> extents);

  // Handlers for pthread_atfork(3). `in_child` only makes system calls; afterwards the object can
  // only be destroyed.
  void before_fork();
  void in_parent();
  void in_child();

 private:
  MemoryFile(UniqueFd fd, const MappedFile& file, WriteFreeze freeze)
      : fd_(std::move(fd)), file_(file), freeze_(std::move(freeze)) {}
  class Replacement;
  bool is_ours() const;
  void adopt_mapping(const Mapping& mapping, const PageRange& pages, std::vector<Extent>& out);
  void move_in(const PageRange& pages, std::vector<Extent>& out);
  bool replace(const PageRange& pages, Replacement& replacement) const;
  bool move_chunk_in(const PageRange& pages, std::uint64_t offset);
  void move_back(const PageRange& part);
  bool move_chunk_back(const PageRange& pages, const Mapping& mapping);
  bool move_protected_back(const PageRange& pages, const Mapping& mapping);
  std::uint64_t take_space(const PageRange& pages);
  void punch(const PageRange& part) const;

  UniqueFd fd_;
  MappedFile file_;
  WriteFreeze freeze_;
  int process_id_ = 0;
  std::mutex lock_;  // Protects the members below; held across fork.
  std::uint64_t next_ = 0;
  UseCounts users_;
  std::vector<Mapping> copied_by_child_;  // Used between a fork's handlers only, like the next one.
  UniqueFd child_done_[2];                // A pipe.
};

}  // namespace verbatim::region
