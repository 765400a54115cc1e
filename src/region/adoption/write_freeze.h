#pragma once

#include <array>
#include <cstdint>

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "region/adoption/mappings.h"

namespace verbatim::region {

/// Replaces memory of this process by other memory with the same bytes while all its threads run. A
/// thread that writes there meanwhile waits, by userfaultfd(2), and then writes to the new memory.
/// No write is lost.
///
/// The userfaultfd of an ordinary user stops threads that write themselves, but not the kernel that
/// writes for them: a read(2) of another thread into these pages at this moment fails with EFAULT.
/// For root, and if vm.unprivileged_userfaultfd is 1, there is no such gap.
class WriteFreeze {
 public:
  /// If the kernel or a container's filter refuses (ENOSYS, EPERM), `replace` works only in
  /// programs with a single thread, beside our `own_threads`, which must not write meanwhile.
  /// `without_freeze`: as if refused, for tests.
  static WriteFreeze open(unsigned own_threads, bool without_freeze = false);

  /// Copies the bytes of `old` to the mapping at `replacement`, which has the same length and then
  /// takes its place. Both consist of whole pages and are one mapping each; the replacement is
  /// writable and resident. A failure changes nothing: EBUSY if other threads run and cannot be
  /// stopped, or if the program has its own userfaultfd there.
  ///
  /// Requires that `old` contains none of `pages_of_this_thread`: the thread would wait for itself.
  Result<void> replace(const PageRange& old, std::uint64_t replacement) const;

 private:
  WriteFreeze(UniqueFd fd, unsigned own_threads) : fd_(std::move(fd)), own_threads_(own_threads) {}
  Result<void> freeze(const PageRange& pages) const;

  UniqueFd fd_;  // Empty: threads cannot be stopped.
  unsigned own_threads_ = 0;
};

/// Returns the memory that the calling thread always writes: its stack around here, and its control
/// block, which the kernel writes, too (rseq(2)).
std::array<PageRange, 2> pages_of_this_thread();

}  // namespace verbatim::region
