#include "region/adoption/page_mover.h"

#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/processor.h"
#include "region/adoption/threads.h"

// Names that the C library of older distributions lacks.
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef UFFD_FEATURE_WP_HUGETLBFS_SHMEM
#define UFFD_FEATURE_WP_HUGETLBFS_SHMEM (1 << 12)  // Linux 5.19.
#endif
#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)  // Linux 6.1.
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

namespace verbatim::region {
namespace {

/// Returns the descriptor if the kernel gives it what `PageMover` needs; else an empty one.
UniqueFd with_features(long opened) {
  UniqueFd fd(static_cast<int>(opened));
  uffdio_api api{
      .api = UFFD_API,
      .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP | std::uint64_t{UFFD_FEATURE_WP_HUGETLBFS_SHMEM},
      .ioctls = 0};
  if (fd && ioctl(fd.get(), UFFDIO_API, &api) != 0) fd.reset();
  return fd;
}

/// Stops the kernel, too: for root, with vm.unprivileged_userfaultfd, or if the machine's owner
/// lets this user open the device.
UniqueFd open_for_everything() {
  constexpr int kFlags = O_CLOEXEC | O_NONBLOCK;
  if (UniqueFd fd = with_features(syscall(SYS_userfaultfd, kFlags))) return fd;
  const UniqueFd device(::open("/dev/userfaultfd", O_RDWR | O_CLOEXEC));
  return device ? with_features(ioctl(device.get(), USERFAULTFD_IOC_NEW, kFlags)) : UniqueFd();
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

Result<void> result_of(long code, const char* what) {
  if (code == 0) return {};
  return refuse(static_cast<int>(-code), what);
}

}  // namespace

PageMover PageMover::open(unsigned own_threads, bool without_freeze) {
  if (without_freeze) return {UniqueFd(), Mode::nothing, own_threads};
  if (UniqueFd fd = open_for_everything()) return {std::move(fd), Mode::everything, own_threads};
  UniqueFd fd =
      with_features(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
  const Mode mode = fd ? Mode::threads : Mode::nothing;
  return {std::move(fd), mode, own_threads};
}

Result<void> PageMover::check_alone() const {
  const auto threads = count_threads();
  if (!threads) return std::unexpected(threads.error());
  if (*threads <= 1 + own_threads_) return {};
  return refuse(EBUSY, fmt::format("{} threads run and cannot be stopped", *threads));
}

/// Accesses of this kind wait from now on.
Result<void> PageMover::watch(const PageRange& pages, std::uint64_t mode) const {
  uffdio_register wanted{
      .range = {.start = pages.begin, .len = pages.length()}, .mode = mode, .ioctls = 0};
  if (ioctl(fd_.get(), UFFDIO_REGISTER, &wanted) != 0) return refuse_errno("userfaultfd register");
  if (mode != UFFDIO_REGISTER_MODE_WP) return {};
  uffdio_writeprotect protect{.range = wanted.range, .mode = UFFDIO_WRITEPROTECT_MODE_WP};
  const long failed =
      bare_system_call(SYS_ioctl, fd_.get(), UFFDIO_WRITEPROTECT, reinterpret_cast<long>(&protect));
  if (failed != 0) wake(pages, true);
  return result_of(failed, "userfaultfd does not protect the pages");
}

/// Threads that wait go on. `unwatches`: the mapping is still the one that `watch` was called for.
void PageMover::wake(const PageRange& pages, bool unwatches) const {
  uffdio_range range{.start = pages.begin, .len = pages.length()};
  const auto argument = reinterpret_cast<long>(&range);
  if (unwatches) bare_system_call(SYS_ioctl, fd_.get(), UFFDIO_UNREGISTER, argument);
  bare_system_call(SYS_ioctl, fd_.get(), UFFDIO_WAKE, argument);
}

// In both functions the thread may write only its own locals, not even errno, while pages are
// watched: other memory may be frozen, and the thread would wait for itself.

Result<void> PageMover::move_in(const PageRange& old, std::uint64_t replacement,
                                std::uint64_t parked) const {
  const SignalsWait signals;
  const bool watches = mode_ == Mode::everything;
  const auto stopped = watches ? watch(old, UFFDIO_REGISTER_MODE_MISSING) : check_alone();
  if (!stopped) return stopped;
  // Leaves the mapping, without pages: whoever accesses them waits.
  long failed = put(old.begin, old.length(), parked, MREMAP_DONTUNMAP);
  if (failed != 0) {
    if (watches) wake(old, true);
    return result_of(failed, "mremap refuses to take the pages away");
  }
  copy_pages(pointer_to(replacement), pointer_to(parked), old.length());
  // Whoever would begin to sleep now waits at the look at its word.
  const Sleepers sleepers = sleepers_in(old);
  const bool may_move = sleepers.is_known && sleepers.count == 0;
  failed = may_move ? put(replacement, old.length(), old.begin) : -EBUSY;
  if (failed != 0) put(parked, old.length(), old.begin, MREMAP_DONTUNMAP);
  if (watches) wake(old, false);
  return result_of(failed, may_move ? "mremap refuses" : "a thread sleeps at one of its words");
}

Result<void> PageMover::move_back(const PageRange& old, std::uint64_t replacement) const {
  const SignalsWait signals;
  const bool watches = mode_ != Mode::nothing;
  const auto stopped = watches ? watch(old, UFFDIO_REGISTER_MODE_WP) : check_alone();
  if (!stopped) return stopped;
  copy_pages(pointer_to(replacement), pointer_to(old.begin), old.length());
  const long failed = put(replacement, old.length(), old.begin);
  if (watches) wake(old, failed != 0);
  return result_of(failed, "mremap refuses");
}

}  // namespace verbatim::region
