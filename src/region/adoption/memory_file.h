#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "region/adoption/mappings.h"
#include "region/use_counts.h"

namespace verbatim::region {

/// Memory adoption (docs/design.md, 4). Pages of the program move, in place, into one sparse memfd,
/// which peers map. When the last user is gone they move back, and are ordinary memory again. The
/// program does not notice: addresses and bytes stay the same at every moment, even if threads
/// write meanwhile. A byte's address is its offset in the file.
///
/// Only memory that loses nothing by it moves (`is_movable`), and none while a driver or the kernel
/// may have pinned pages.
///
/// A forked child does not share adopted memory: it gets a copy, made between `before_fork` and
/// `in_parent`. Thread-safe.
class MemoryFile {
 public:
  static constexpr std::uint64_t kBytes = std::uint64_t{1} << 62;
  /// Fails with ENOMEM, EMFILE, EFBIG and other errors of the kernel, with a text.
  static Result<std::unique_ptr<MemoryFile>> create();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile();

  int fd() const { return fd_.get(); }
  /// Others that write to the program's memory by its addresses, which nothing stops: peers by
  /// process_vm_writev(2). `begin` returns true if none of them does so until `end`, which follows
  /// in either case.
  struct Writers {
    std::function<bool()> begin = [] { return true; };
    std::function<void()> end = [] {};
  };
  void set_writers(Writers writers) { writers_ = std::move(writers); }

  /// Adopts whole pages, from the first one on, until one cannot be. Returns how many bytes are in
  /// the file now; each page of them has one more user. `to_come`: bytes that will be adopted
  /// behind these.
  std::uint64_t adopt(const PageRange& pages, std::uint64_t to_come = 0);
  /// Zeroed memory of the program that is in the file from the start: nothing has to move. A forked
  /// child does not have it.
  Result<PageRange> give(std::uint64_t bytes);
  /// True if all of it is such memory.
  bool has_given(std::uint64_t address, std::uint64_t length);
  /// Unmaps what begins there. Returns false if that was not given. As for `release`, no peer
  /// accesses it.
  bool take_back(std::uint64_t address);
  /// Removes a user from pages that were adopted. Requires that no peer accesses them by the file
  /// for this user any more.
  void release(const PageRange& pages);

  // Handlers for pthread_atfork(3). `in_child` only makes system calls; afterwards the object can
  // only be destroyed.
  void before_fork();
  void in_parent();
  void in_child();

 private:
  MemoryFile(UniqueFd fd, const MappedFile& file) : fd_(std::move(fd)), file_(file) {}
  class Replacement;
  class Alone;
  /// Where the mapping is from which pages have been adopted.
  struct Parked {
    std::uint64_t end = 0;
    std::uint64_t at = 0;
  };
  bool is_ours() const;
  std::uint64_t move_in(const PageRange& pages, std::uint64_t room);
  bool move_chunk_in(const PageRange& pages, std::uint64_t parked);
  void move_back(const PageRange& part);
  bool move_chunk_back(const PageRange& pages, const Mapping& mapping);
  bool fill(const Replacement& replacement, const PageRange& pages, const Mapping& mapping) const;
  std::uint64_t parked_bytes(std::uint64_t offset) const;
  Replacement take_parked(const PageRange& file_part);
  void drop_parked(const PageRange& part);
  void punch(const PageRange& part) const;

  UniqueFd fd_;
  MappedFile file_;
  Writers writers_;
  int process_id_ = 0;
  std::mutex lock_;  // Protects the members below; held across fork.
  UseCounts users_;
  std::map<std::uint64_t, Parked> parked_;        // By the first page's old address.
  std::uint64_t next_parked_ = 0;                 // Where the last one ends.
  std::map<std::uint64_t, std::uint64_t> given_;  // The end of each, by its begin.
  std::vector<Mapping> copied_by_child_;  // Used between a fork's handlers only, like the next one.
  UniqueFd child_done_[2];                // A pipe.
};

}  // namespace verbatim::region
