#include "region/adoption/threads.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <string>

#include <fcntl.h>
#include <link.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/stat.h>
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif
#include <sys/syscall.h>
#include <unistd.h>

#include "base/os/page.h"
#include "base/processor.h"

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

long open_bare(const char* path, int flags, long folder = AT_FDCWD) {
  return bare_system_call(SYS_openat, folder, reinterpret_cast<long>(path), flags | O_CLOEXEC, 0);
}

/// Reads the number at `text`, decimal or with "0x", and moves `text` behind it and a space.
std::uint64_t take_number(const char*& text) {
  const bool is_hex = text[0] == '0' && text[1] == 'x';
  if (is_hex) text += 2;
  std::uint64_t number = 0;
  for (;; ++text) {
    const char c = *text;
    const int digit = c >= '0' && c <= '9'             ? c - '0'
                      : is_hex && c >= 'a' && c <= 'f' ? c - 'a' + 10
                                                       : -1;
    if (digit < 0) break;
    number = number * (is_hex ? 16 : 10) + static_cast<std::uint64_t>(digit);
  }
  if (*text == ' ') ++text;
  return number;
}

/// `call` is a line of /proc/PID/syscall: "running", or a number and arguments.
void note_sleeper(const char* call, const PageRange& pages, Sleepers& found) {
  if (call[0] < '0' || call[0] > '9') return;  // It runs, or waits for a page.
  const std::uint64_t number = take_number(call);
#ifdef SYS_futex_waitv
  if (number == SYS_futex_waitv) found.is_known = false;  // Its words are in a list.
#endif
  if (number != SYS_futex) return;
  const std::uint64_t word = take_number(call);
  const std::uint64_t operation = take_number(call);
  if ((operation & FUTEX_PRIVATE_FLAG) != 0 || word < pages.begin || word >= pages.end) return;
  if (found.count == found.words.size()) {
    found.is_known = false;
  } else {
    found.words[found.count++] = word;
  }
}

/// As linux_dirent64 of getdents64(2).
struct FolderEntry {
  std::uint64_t inode;
  std::int64_t next;
  std::uint16_t length;
  std::uint8_t type;
  char name[1];
};

/// Reads what the thread with this number, in a folder of /proc, is doing.
void look_at(long folder, const char* thread, const PageRange& pages, Sleepers& found) {
  char path[32] = {};
  std::size_t end = 0;
  for (; thread[end] != 0 && end < 20; ++end) path[end] = thread[end];
  constexpr char kFile[] = "/syscall";
  for (std::size_t i = 0; i < sizeof kFile; ++i) path[end + i] = kFile[i];
  const long fd = open_bare(path, O_RDONLY, folder);
  if (fd < 0) {
    found.is_known = found.is_known && fd == -ENOENT;  // It has just ended.
    return;
  }
  char line[256] = {};
  const long got = bare_system_call(SYS_read, fd, reinterpret_cast<long>(line), sizeof line - 1);
  if (got < 0 && got != -ESRCH) found.is_known = false;
  note_sleeper(line, pages, found);
  bare_system_call(SYS_close, fd, 0, 0);
}

}  // namespace

/// Counts the links of the folder: itself, its parent's entry, and one for each thread.
Result<unsigned> count_threads() {
  constexpr unsigned kOfItself = 2;
  struct stat info{};
  if (stat("/proc/self/task", &info) != 0) return refuse_errno("/proc/self/task");
  if (info.st_nlink <= kOfItself) return refuse(ENOENT, "/proc/self/task does not count threads");
  return static_cast<unsigned>(info.st_nlink - kOfItself);
}

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

Sleepers sleepers_in(const PageRange& pages) {
  Sleepers found;
  const long folder = open_bare("/proc/self/task", O_RDONLY | O_DIRECTORY);
  alignas(FolderEntry) char entries[2048];
  long bytes = folder < 0 ? folder : 1;
  while (bytes > 0) {
    bytes =
        bare_system_call(SYS_getdents64, folder, reinterpret_cast<long>(entries), sizeof entries);
    for (long at = 0; at < bytes;) {
      const auto* const entry = reinterpret_cast<const FolderEntry*>(entries + at);
      if (entry->name[0] != '.') look_at(folder, entry->name, pages, found);
      at += entry->length;
    }
  }
  if (bytes < 0) found.is_known = false;
  if (folder >= 0) bare_system_call(SYS_close, folder, 0, 0);
  return found;
}

}  // namespace verbatim::region
