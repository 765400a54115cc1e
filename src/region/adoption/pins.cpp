#include "region/adoption/pins.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <sys/socket.h>

namespace verbatim::region {
namespace {

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

}  // namespace verbatim::region
