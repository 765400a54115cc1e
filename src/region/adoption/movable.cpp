#include "region/adoption/movable.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <string>
#include <string_view>

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "region/adoption/threads.h"

namespace verbatim::region {
namespace {

/// Of ordinary memory: readable, writable, may be made so and executable, accounted or not,
/// written since soft-dirty bits were cleared. Any other flag is a property that the memory of a
/// file would not have (proc_pid_smaps(5)).
constexpr std::array<std::string_view, 8> kPlainFlags = {"rd", "wr", "mr", "mw",
                                                         "me", "ac", "nr", "sd"};

bool has_plain_flags(const std::string& flags) {
  std::istringstream words(flags);
  bool is_known = false;
  for (std::string word; words >> word; is_known = true) {
    if (std::ranges::find(kPlainFlags, word) == kPlainFlags.end()) return false;
  }
  return is_known;
}

/// mbind(2). The policy of the thread or the process applies to a file's pages as well.
bool has_policy(std::uint64_t address) {
  int mode = MPOL_DEFAULT;
  const long asked = syscall(SYS_get_mempolicy, &mode, nullptr, 0UL, address, MPOL_F_ADDR);
  return asked == 0 && mode != MPOL_DEFAULT;
}

}  // namespace

bool is_plain(const Mapping& mapping) {
  const bool is_named =
      !mapping.name.empty() && mapping.name != "[heap]" && !mapping.name.starts_with("[anon");
  return !is_named && mapping.readable && mapping.writable && !mapping.executable &&
         !mapping.shared && mapping.file.inode == 0 && !mapping.has_key &&
         has_plain_flags(mapping.flags) && !has_policy(mapping.range.begin);
}

bool is_movable(const Mapping& mapping, const PageRange& pages) {
  return is_plain(mapping) && !has_thread(mapping, pages) &&
         !overlap(stack_of_this_thread(), pages);
}

}  // namespace verbatim::region
