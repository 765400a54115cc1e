#include "region/adoption/write_freeze.h"

#include <algorithm>
#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/os/page.h"
#include "base/processor.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef UFFD_FEATURE_WP_HUGETLBFS_SHMEM
#define UFFD_FEATURE_WP_HUGETLBFS_SHMEM (1 << 12)  // Linux 5.19.
#endif

namespace verbatim::region {
namespace {

/// Returns a descriptor with these features; empty if the kernel refuses them.
UniqueFd open_with(std::uint64_t features) {
  constexpr int kFlags = O_CLOEXEC | O_NONBLOCK;
  for (const int mode : {0, UFFD_USER_MODE_ONLY}) {
    UniqueFd fd(static_cast<int>(syscall(SYS_userfaultfd, kFlags | mode)));
    uffdio_api api{.api = UFFD_API, .features = features, .ioctls = 0};
    if (fd && ioctl(fd.get(), UFFDIO_API, &api) == 0) return fd;
  }
  return {};
}

/// Blocks this thread's signals: a handler could write to frozen memory, and wait for this thread.
class SignalsWait {
 public:
  SignalsWait() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsWait() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsWait(const SignalsWait&) = delete;
  SignalsWait& operator=(const SignalsWait&) = delete;

 private:
  sigset_t before_;
};

/// Counts the links of the folder: itself, its parent's entry, and one for each thread.
Result<unsigned> count_threads() {
  constexpr unsigned kOfItself = 2;
  struct stat info{};
  if (stat("/proc/self/task", &info) != 0) return refuse_errno("/proc/self/task");
  if (info.st_nlink <= kOfItself) return refuse(ENOENT, "/proc/self/task does not count threads");
  return static_cast<unsigned>(info.st_nlink - kOfItself);
}

std::byte* pointer_to(std::uint64_t address) {
  return reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace

WriteFreeze WriteFreeze::open(unsigned own_threads, bool without_freeze) {
  if (without_freeze) return {UniqueFd(), own_threads};
  // Memory that is moved back is frozen as shared memory; kernels before 5.19 can only freeze
  // private memory.
  UniqueFd fd =
      open_with(UFFD_FEATURE_PAGEFAULT_FLAG_WP | std::uint64_t{UFFD_FEATURE_WP_HUGETLBFS_SHMEM});
  if (!fd) fd = open_with(UFFD_FEATURE_PAGEFAULT_FLAG_WP);
  return {std::move(fd), own_threads};
}

Result<void> WriteFreeze::freeze(const PageRange& pages) const {
  uffdio_register wanted{.range = {.start = pages.begin, .len = pages.length()},
                         .mode = UFFDIO_REGISTER_MODE_WP,
                         .ioctls = 0};
  if (ioctl(fd_.get(), UFFDIO_REGISTER, &wanted) != 0) return refuse_errno("userfaultfd register");
  uffdio_writeprotect protect{.range = wanted.range, .mode = UFFDIO_WRITEPROTECT_MODE_WP};
  const long frozen =
      bare_system_call(SYS_ioctl, fd_.get(), UFFDIO_WRITEPROTECT, reinterpret_cast<long>(&protect));
  if (frozen == 0) return {};
  uffdio_range range = wanted.range;
  bare_system_call(SYS_ioctl, fd_.get(), UFFDIO_UNREGISTER, reinterpret_cast<long>(&range));
  return refuse(static_cast<int>(-frozen), "userfaultfd does not protect the pages");
}

Result<void> WriteFreeze::replace(const PageRange& old, std::uint64_t replacement) const {
  const SignalsWait signals;
  if (!fd_) {
    const auto threads = count_threads();
    if (!threads) return std::unexpected(threads.error());
    if (*threads > 1 + own_threads_) {
      return refuse(EBUSY, fmt::format("{} threads run and userfaultfd is refused", *threads));
    }
  } else if (auto frozen = freeze(old); !frozen) {
    return frozen;
  }
  // From here on this thread may write only its own locals, not even errno: all other memory may be
  // frozen, and the thread would wait for itself.
  copy_pages(pointer_to(replacement), pointer_to(old.begin), old.length());
  const long moved = bare_system_call(
      SYS_mremap, static_cast<long>(replacement), static_cast<long>(old.length()),
      static_cast<long>(old.length()), MREMAP_MAYMOVE | MREMAP_FIXED, static_cast<long>(old.begin));
  if (fd_) {
    uffdio_range range{.start = old.begin, .len = old.length()};
    // Also wakes waiting threads. Fails for the new mapping, because that was never registered.
    if (moved < 0)
      bare_system_call(SYS_ioctl, fd_.get(), UFFDIO_UNREGISTER, reinterpret_cast<long>(&range));
    bare_system_call(SYS_ioctl, fd_.get(), UFFDIO_WAKE, reinterpret_cast<long>(&range));
  }
  if (moved >= 0) return {};
  return refuse(static_cast<int>(-moved), "mremap refuses");
}

namespace {

/// Returns where the kernel writes while the thread runs: its area for restartable sequences,
/// rseq(2).
std::uint64_t rseq_address(std::uint64_t thread_pointer) {
#ifdef RSEQ_SIG
  if (__rseq_size != 0) return thread_pointer + static_cast<std::uint64_t>(__rseq_offset);
#endif
  return thread_pointer;
}

}  // namespace

std::array<PageRange, 2> pages_of_this_thread() {
  const std::uint64_t page = page_bytes();
  constexpr std::uint64_t kCalls = 64
                                   << 10;  // Of stack below this frame, for the calls that follow.
  constexpr std::uint64_t kControlBlock = 4096;  // glibc's `struct pthread` is smaller.
#ifdef __SANITIZE_THREAD__
  // ThreadSanitizer records each call and access in the thread's static TLS, below the block:
  // 0xbfd60 bytes in g++ 12's libtsan.
  constexpr std::uint64_t kBelow = 0xc0000;
#else
  constexpr std::uint64_t kBelow = kControlBlockIsAboveThreadPointer ? 0 : kControlBlock;
#endif
  const auto pages = [page](std::uint64_t from, std::uint64_t to) {
    return PageRange{from / page * page, (to + page - 1) / page * page};
  };
  const auto here = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
  // The C library's version determines where errno and the area of rseq(2) are.
  const auto block = reinterpret_cast<std::uint64_t>(__builtin_thread_pointer());
  const auto [first, last] =
      std::minmax({block, reinterpret_cast<std::uint64_t>(&errno), rseq_address(block)});
  return {pages(here - kCalls, here + page), pages(first - kBelow, last + kControlBlock)};
}

}  // namespace verbatim::region
