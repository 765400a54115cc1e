#include "offload/card/guarded_mapping.h"

#include <array>
#include <atomic>
#include <csignal>
#include <utility>

#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace verbatim::offload {
namespace {

/// What the signal's handler looks at. One thread maps and accesses; the handler runs in it.
struct Guard {
  std::atomic<std::uintptr_t> begin{0};  // 0: free.
  std::atomic<std::uintptr_t> end{0};
  std::atomic<std::uintptr_t> page{0};  // Huge pages are replaced whole.
  std::atomic<bool> was_cut{false};
};
std::array<Guard, GuardedMapping::kMappingsMax> guards;
struct sigaction before;

void on_bus_error(int number, siginfo_t* info, void* context) {
  const auto at = reinterpret_cast<std::uintptr_t>(info->si_addr);
  for (Guard& guard : guards) {
    if (at < guard.begin.load() || at >= guard.end.load()) continue;
    const std::uintptr_t page = guard.page.load();
    void* const where = reinterpret_cast<void*>(at & ~(page - 1));
    const int saved = errno;
    void* const zeros =
        mmap(where, page, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    errno = saved;
    if (zeros == MAP_FAILED) break;
    guard.was_cut.store(true);
    return;
  }
  // Not ours: as if there were no handler.
  if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction != nullptr) {
    return before.sa_sigaction(number, info, context);
  }
  signal(number, SIG_DFL);
}

std::uintptr_t page_bytes(int fd) {
  struct statfs system{};
  const bool is_huge = fstatfs(fd, &system) == 0 && system.f_type == HUGETLBFS_MAGIC;
  return static_cast<std::uintptr_t>(is_huge ? system.f_bsize : getpagesize());
}

void install_handler() {
  static bool is_installed = false;
  if (std::exchange(is_installed, true)) return;
  struct sigaction action{};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, &before);
}

}  // namespace

Result<GuardedMapping> GuardedMapping::map(int fd, std::uint64_t offset, std::uint64_t length) {
  std::size_t slot = 0;
  while (slot < guards.size() && guards[slot].begin.load() != 0) ++slot;
  if (slot == guards.size()) {
    return refuse(ENOSPC, fmt::format("at most {} pieces of memory", kMappingsMax));
  }
  install_handler();
  void* const at =
      mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (at == MAP_FAILED) return refuse_errno("mmap");
  madvise(at, length, MADV_DONTFORK);  // The keeper's process would keep its file open.
  guards[slot].was_cut.store(false);
  guards[slot].page.store(page_bytes(fd));
  guards[slot].end.store(reinterpret_cast<std::uintptr_t>(at) + length);
  guards[slot].begin.store(reinterpret_cast<std::uintptr_t>(at));
  return GuardedMapping(static_cast<std::byte*>(at), length, slot);
}

GuardedMapping::GuardedMapping(GuardedMapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(other.size_), slot_(other.slot_) {}

GuardedMapping::~GuardedMapping() {
  if (data_ == nullptr) return;
  guards[slot_].begin.store(0);
  guards[slot_].end.store(0);
  munmap(data_, size_);
}

bool GuardedMapping::was_cut() const { return guards[slot_].was_cut.load(); }

}  // namespace verbatim::offload
