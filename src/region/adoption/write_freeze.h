#pragma once

#include <array>
#include <cstdint>

#include "base/error.h"
#include "base/os/unique_fd.h"
#include "region/adoption/mappings.h"

namespace verbatim::region {

/// Replaces memory of this process by other memory with the same bytes while all its threads run:
/// whoever writes there in between waits, by userfaultfd(2), and then writes to the new memory. No
/// write is lost.
///
/// An ordinary user's userfaultfd may stop threads that write by themselves, not the kernel that
/// writes for them: a read(2) of another thread into just these pages at just this moment fails
/// with EFAULT. Root, and users where vm.unprivileged_userfaultfd is 1, have it without that gap.
class WriteFreeze {
 public:
  /// ENOSYS, EPERM where the kernel or a container's filter refuses: then `replace` serves programs
  /// with a single thread only, beside `own_threads` of ours, which must not write meanwhile.
  /// `without_freeze`: as if refused; tests say it.
  static WriteFreeze open(unsigned own_threads, bool without_freeze = false);

  /// The bytes of `old` are copied to the mapping at `replacement`, of the same length, which then
  /// takes its place. Both are of whole pages, and one mapping each; the replacement is writable
  /// and resident. On failure all is as it was: EBUSY where other threads run and cannot be
  /// stopped, or where the program has a userfaultfd of its own there.
  ///
  /// `old` must hold none of `pages_of_this_thread`: it would wait for itself.
  Result<void> replace(const PageRange& old, std::uint64_t replacement) const;

 private:
  WriteFreeze(UniqueFd fd, unsigned own_threads) : fd_(std::move(fd)), own_threads_(own_threads) {}
  Result<void> freeze(const PageRange& pages) const;

  UniqueFd fd_;  // None: threads cannot be stopped.
  unsigned own_threads_ = 0;
};

/// What the caller's thread writes whatever it does: its stack around here, and its control block,
/// which the kernel writes to as well (rseq(2)).
std::array<PageRange, 2> pages_of_this_thread();

}  // namespace verbatim::region
