// close_range and closefrom spare the descriptors of the libraries, which the program cannot know.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "dropin/rspreload/fd_table.h"
#include "dropin/rspreload/next.h"
#include "ulp/sockets/epoll_sets.h"

using namespace verbatim::rspreload;  // NOLINT: a file of entry points.

#define EXPORT __attribute__((visibility("default")))

namespace {

constexpr std::array<std::string_view, 5> kOurs = {"anon_inode:", "/memfd:verbatim",
                                                   "pipe:", "socket:", "/proc/"};

/// A descriptor that may be the libraries': of their kinds, and not for other programs. In doubt it
/// stays open.
bool may_be_ours(int fd) {
  if ((fcntl(fd, F_GETFD) & FD_CLOEXEC) == 0 || verbatim::ulp::sockets::find_set(fd)) return false;
  std::array<char, 256> target;
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t length = readlink(path.c_str(), target.data(), target.size());
  if (length <= 0) return true;
  const std::string_view text(target.data(), static_cast<std::size_t>(length));
  const auto is_one = [text](std::string_view one) { return text.starts_with(one); };
  return std::ranges::any_of(kOurs, is_one) || text.contains("/verbatim");
}

std::vector<int> open_numbers(unsigned first, unsigned last) {
  std::vector<int> numbers;
  DIR* const folder = opendir("/proc/self/fd");
  if (folder == nullptr) return numbers;
  while (const dirent* const entry = readdir(folder)) {
    const auto number = static_cast<unsigned>(std::atoi(entry->d_name));
    const auto fd = static_cast<int>(number);
    const bool is_wanted = entry->d_name[0] != '.' && number >= first && number <= last;
    if (is_wanted && fd != dirfd(folder)) numbers.push_back(fd);
  }
  closedir(folder);
  return numbers;
}

/// Closes the program's descriptors of the range.
void close_own(unsigned first, unsigned last) {
  for (const int fd : open_numbers(first, last)) {
    const bool is_known = kind_of(fd) != Kind::other;
    if (is_known || !within([fd] { return may_be_ours(fd); })) close(fd);
  }
}

}  // namespace

extern "C" {

EXPORT int close_range(unsigned first, unsigned last, int flags) noexcept {
  static auto* const plain = next<int(unsigned, unsigned, int)>("close_range");
  // A child is about to become another program, which gets none of ours.
  const bool is_plain = flags != 0 || first > last || inside() || !has_rsockets();
  if (is_plain) return plain(first, last, flags);
  close_own(first, last);
  return 0;
}

EXPORT void closefrom(int first) noexcept {
  static auto* const plain = next<void(int)>("closefrom");
  if (inside() || !has_rsockets()) return plain(first);
  close_own(first < 0 ? 0 : static_cast<unsigned>(first), ~0U);
}

}  // extern "C"
