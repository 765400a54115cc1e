#pragma once

#include <cstdint>

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "region/adoption/mappings.h"

namespace verbatim::region {

/// Exchanges memory of this process for other memory with the same bytes while all its threads run.
/// Whoever accesses it meanwhile waits, by userfaultfd(2), and then accesses the new memory. No
/// write is lost.
///
/// A process that is not privileged may only stop threads that access memory themselves, but not
/// the kernel that does so for them: a read(2) into these pages at this moment would fail with
/// EFAULT. So it moves memory only while the calling thread is its only one, beside `own_threads`.
class PageMover {
 public:
  /// `own_threads`: our threads, which do not write to the program's memory. `without_freeze`: as
  /// if userfaultfd(2) was refused, for tests.
  static PageMover open(unsigned own_threads, bool without_freeze = false);
  /// Returns true if any thread may move memory at any time.
  bool stops_everything() const { return mode_ == Mode::everything; }

  /// Moves the private anonymous pages of `old` to `parked`, where they leave no memory but the
  /// kernel's knowledge of them, and puts the mapping at `replacement` with the same bytes in their
  /// place. All are whole pages of one mapping each; the replacement is writable and resident,
  /// `parked` is empty and stays mapped. A failure changes nothing: EBUSY if threads cannot be
  /// stopped, sleep at a word of these pages, or if the program has its own userfaultfd there.
  ///
  /// Requires that the calling thread's stack and control block are not in `old`.
  Result<void> move_in(const PageRange& old, std::uint64_t replacement, std::uint64_t parked) const;
  /// Puts the private mapping at `replacement`, with the bytes of `old`, in the place of `old`, a
  /// mapping of a file that the threads write to.
  Result<void> move_back(const PageRange& old, std::uint64_t replacement) const;

 private:
  enum class Mode : std::uint8_t { nothing, threads, everything };
  PageMover(UniqueFd fd, Mode mode, unsigned own_threads)
      : fd_(std::move(fd)), mode_(mode), own_threads_(own_threads) {}
  Result<void> check_alone() const;
  Result<void> watch(const PageRange& pages, std::uint64_t mode) const;
  void wake(const PageRange& pages, bool unwatches) const;

  UniqueFd fd_;  // Empty: threads cannot be stopped.
  Mode mode_;
  unsigned own_threads_ = 0;
};

}  // namespace verbatim::region
