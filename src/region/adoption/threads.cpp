#include "region/adoption/threads.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string>

#include <link.h>
#include <linux/futex.h>
#include <pthread.h>
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif
#include <sys/syscall.h>
#include <unistd.h>

#include "base/os/page.h"

namespace verbatim::region {
namespace {

/// Returns where the thread's list of robust mutexes begins, in its control block; 0 if the C
/// library has not set it, or the thread has ended.
std::uint64_t robust_list_of(int thread) {
  std::uint64_t head = 0;
  std::size_t length = 0;
  return syscall(SYS_get_robust_list, thread, &head, &length) == 0 ? head : 0;
}

/// Returns where the kernel writes while the thread runs: its area for restartable sequences,
/// rseq(2).
std::uint64_t rseq_address(std::uint64_t thread_pointer) {
#ifdef RSEQ_SIG
  if (__rseq_size != 0) return thread_pointer + static_cast<std::uint64_t>(__rseq_offset);
#endif
  return thread_pointer;
}

/// The memory of the calling thread's control block and of its variables beside it.
PageRange own_block() {
  const auto pointer = reinterpret_cast<std::uint64_t>(__builtin_thread_pointer());
  PageRange block{pointer, pointer + sizeof(void*)};
  const auto include = [&](std::uint64_t begin, std::uint64_t length) {
    constexpr std::uint64_t kBlockMax = 16 << 20;  // Of late modules they are elsewhere.
    if (begin + kBlockMax < pointer || begin > pointer + kBlockMax) return;
    block = {std::min(block.begin, begin), std::max(block.end, begin + length)};
  };
  include(robust_list_of(0), sizeof(robust_list_head));
  include(rseq_address(pointer), 32);
  auto module = [&](const dl_phdr_info& info) {
    const auto data = reinterpret_cast<std::uint64_t>(info.dlpi_tls_data);
    for (int i = 0; data != 0 && i < info.dlpi_phnum; ++i) {
      if (info.dlpi_phdr[i].p_type == PT_TLS) include(data, info.dlpi_phdr[i].p_memsz);
    }
  };
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* use) {
        (*static_cast<decltype(module)*>(use))(*info);
        return 0;
      },
      &module);
  return block;
}

}  // namespace

bool has_thread(const Mapping& mapping, const PageRange& pages) {
  const std::uint64_t own = robust_list_of(0);
  const PageRange own_variables = own_block();
  if (own == 0) return true;
  std::error_code failed;
  for (std::filesystem::directory_iterator entry("/proc/self/task", failed), end;
       !failed && entry != end; entry.increment(failed)) {
    const std::string name = entry->path().filename();
    int thread = 0;
    std::from_chars(name.data(), name.data() + name.size(), thread);
    const std::uint64_t other = robust_list_of(thread);
    if (other < mapping.range.begin || other >= mapping.range.end) continue;
    // All threads have the same layout. The first one's stack is elsewhere.
    const PageRange block{own_variables.begin + (other - own), own_variables.end + (other - own)};
    const std::uint64_t begin = thread == getpid() ? block.begin : mapping.range.begin;
    if (pages.begin < block.end && pages.end > begin) return true;
  }
  return static_cast<bool>(failed);
}

PageRange stack_of_this_thread() {
  const std::uint64_t page = page_bytes();
  constexpr std::uint64_t kCalls = 64 << 10;  // Of stack below this frame, for what is called next.
  const auto here = reinterpret_cast<std::uint64_t>(__builtin_frame_address(0));
  return {(here - kCalls) / page * page, here / page * page + 2 * page};
}

}  // namespace verbatim::region
