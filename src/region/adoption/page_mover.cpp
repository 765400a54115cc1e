#include "region/adoption/page_mover.h"

#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/processor.h"
#include "region/adoption/run_alone.h"

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

namespace verbatim::region {
namespace {

struct Move {
  PageRange old;
  std::uint64_t replacement = 0;
  std::uint64_t parked = 0;
};

std::byte* pointer_to(std::uint64_t address) {
  return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
}

/// mremap(2) without the C library. Returns 0 or a negative errno.
long put(std::uint64_t from, std::uint64_t length, std::uint64_t to, int flags = 0) {
  const long at = bare_system_call(SYS_mremap, static_cast<long>(from), static_cast<long>(length),
                                   static_cast<long>(length), MREMAP_MAYMOVE | MREMAP_FIXED | flags,
                                   static_cast<long>(to));
  return at < 0 && at > -4096 ? at : 0;
}

long put_in(void* argument) {
  const auto& [old, replacement, parked] = *static_cast<const Move*>(argument);
  copy_pages(pointer_to(replacement), pointer_to(old.begin), old.length());
  if (const long failed = put(old.begin, old.length(), parked, MREMAP_DONTUNMAP)) return failed;
  const long failed = put(replacement, old.length(), old.begin);
  if (failed != 0) put(parked, old.length(), old.begin, MREMAP_DONTUNMAP);
  return failed;
}

long put_back(void* argument) {
  const auto& move = *static_cast<const Move*>(argument);
  copy_pages(pointer_to(move.replacement), pointer_to(move.old.begin), move.old.length());
  return put(move.replacement, move.old.length(), move.old.begin);
}

}  // namespace

Result<void> move_pages_in(const PageRange& old, std::uint64_t replacement, std::uint64_t parked) {
  Move move{old, replacement, parked};
  return run_alone(&put_in, &move);
}

Result<void> move_pages_back(const PageRange& old, std::uint64_t replacement) {
  Move move{old, replacement, 0};
  return run_alone(&put_back, &move);
}

}  // namespace verbatim::region
