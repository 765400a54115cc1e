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
  unsigned own_threads = 0;     // Threads of ours, which write to no memory that is adopted.
  bool without_freeze = false;  // As where userfaultfd(2) is refused: see WriteFreeze.
};

/// Memory adoption (docs/design.md, 4): a program registers memory that it allocated as it liked;
/// here its pages move, in place, into one sparse memfd, and when the last user has gone they move
/// back, so that allocators that rely on fresh zero pages stay right. The program notices nothing:
/// addresses and bytes are the same all the time, also under threads that write meanwhile.
///
/// Adopted are whole pages, also those that the range only touches, of private anonymous writable
/// memory: heap and mmap. Not adopted, and so missing in the answer, are the main thread's stack,
/// file mappings, shared memory, huge pages of hugetlbfs, what this thread itself runs on, what
/// somebody may have pinned, and everything where threads cannot be stopped.
///
/// Adopted memory is not inherited by a forked child, which would write to the parent's: the child
/// gets a copy, made between `before_fork` and `in_parent`. Thread-safe.
class MemoryFile {
 public:
  static constexpr std::uint64_t kBytes = std::uint64_t{1} << 62;

  /// ENOMEM, EMFILE, EFBIG and what else the kernel says, in words.
  static Result<std::unique_ptr<MemoryFile>> create(const MemoryFileOptions& options);
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile();

  int fd() const { return fd_.get(); }
  /// The parts of [address, address + length) that are in the file from now on, in order, as whole
  /// pages; each has one more user. Bytes of the file are never used for other memory again.
  std::vector<Extent> adopt(std::uint64_t address, std::uint64_t length);
  /// What `adopt` answered has one user less. The caller makes sure that no peer touches it.
  void release(std::span<const Extent> extents);

  // Handlers of pthread_atfork(3). `in_child` makes system calls only; afterwards the object only
  // waits for its end.
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
  std::mutex lock_;  // Guards what follows; held across fork.
  std::uint64_t next_ = 0;
  UseCounts users_;
  std::vector<Mapping> copied_by_child_;  // Between the handlers of a fork, as is the next.
  UniqueFd child_done_[2];                // A pipe.
};

}  // namespace verbatim::region
