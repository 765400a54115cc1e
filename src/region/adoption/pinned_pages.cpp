#include "region/adoption/pinned_pages.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/page.h"
#include "base/os/unique_fd.h"

namespace verbatim::region {
namespace {

constexpr std::uint64_t kExclusivelyMapped = std::uint64_t{1} << 56;

bool begins_with_any(std::string_view text, std::span<const std::string_view> beginnings) {
  return std::ranges::any_of(beginnings,
                             [text](std::string_view one) { return text.starts_with(one); });
}

bool is_xdp_socket(int fd) {
  int family = 0;
  socklen_t size = sizeof family;
  return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) == 0 && family == AF_XDP;
}

/// Returns true if the open file behind a descriptor is of a kind that can pin pages.
bool can_pin(int fd, std::string_view target) {
  static constexpr std::array<std::string_view, 11> kHarmless = {
      "/dev/null",   "/dev/zero",    "/dev/full", "/dev/tty",     "/dev/pts/",   "/dev/ptmx",
      "/dev/random", "/dev/urandom", "/dev/shm/", "/dev/console", "/dev/net/tun"};
  if (target.starts_with("socket:")) return is_xdp_socket(fd);
  if (target.starts_with("anon_inode:"))
    return target.contains("io_uring") || target.contains("kvm");
  if (target.starts_with("/dev/")) return !begins_with_any(target, kHarmless);
  const int flags = fcntl(fd, F_GETFL);
  return flags >= 0 && (flags & O_DIRECT) != 0;
}

/// Forks a child that shares nothing and waits until it is killed. The C library is bypassed, so no
/// fork handler of the program runs.
pid_t fork_silently() {
  const pid_t parent = getpid();
  const auto child = static_cast<pid_t>(syscall(SYS_clone, 0, nullptr, nullptr, nullptr, 0));
  if (child != 0) return child;
  syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  if (static_cast<pid_t>(syscall(SYS_getppid)) != parent) syscall(SYS_exit_group, 0);
  for (;;) syscall(SYS_ppoll, nullptr, 0, nullptr, nullptr, 0);  // Until it is killed.
}

class SilentChild {
 public:
  SilentChild() : pid_(fork_silently()) {}
  ~SilentChild() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, __WCLONE) < 0 && errno == EINTR) {
    }
  }
  SilentChild(const SilentChild&) = delete;
  SilentChild& operator=(const SilentChild&) = delete;
  bool lives() const { return pid_ > 0; }

 private:
  pid_t pid_;
};

void add_page(std::vector<PageRange>& runs, std::uint64_t page) {
  if (!runs.empty() && runs.back().end == page) {
    runs.back().end += page_bytes();
  } else {
    runs.push_back({page, page + page_bytes()});
  }
}

}  // namespace

bool may_have_pinned_pages() {
  std::error_code failed;
  for (std::filesystem::directory_iterator entry("/proc/self/fd", failed), end;
       !failed && entry != end; entry.increment(failed)) {
    const std::string number = entry->path().filename();
    int fd = -1;
    std::from_chars(number.data(), number.data() + number.size(), fd);
    std::error_code
        gone;  // The descriptor that reads the folder, or one that another thread has closed.
    const std::string target = std::filesystem::read_symlink(entry->path(), gone);
    if (!gone && can_pin(fd, target)) return true;
  }
  return static_cast<bool>(failed);
}

Result<std::vector<PageRange>> pinned_pages(const PageRange& pages) {
  const UniqueFd pagemap(open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC));
  if (!pagemap) return refuse_errno("/proc/self/pagemap");
  std::vector<PageRange> runs;
  const SilentChild child;
  if (!child.lives()) return refuse_errno("clone");
  std::array<std::uint64_t, 512> entries;
  for (std::uint64_t page = pages.begin; page < pages.end;) {
    const auto count = std::min<std::uint64_t>(entries.size(), (pages.end - page) / page_bytes());
    const auto wanted = static_cast<ssize_t>(count * sizeof entries[0]);
    const auto at = static_cast<off_t>(page / page_bytes() * sizeof entries[0]);
    if (pread(pagemap.get(), entries.data(), static_cast<std::size_t>(wanted), at) != wanted) {
      return refuse_errno("reading /proc/self/pagemap");
    }
    for (std::uint64_t i = 0; i < count; ++i, page += page_bytes()) {
      if ((entries[i] & kExclusivelyMapped) != 0) add_page(runs, page);
    }
  }
  return runs;
}

}  // namespace verbatim::region
